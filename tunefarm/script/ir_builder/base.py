"""The builder, and what every frame is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from types import TracebackType
from typing import Any, ClassVar, Self, TypeVar

from compiler.errors import IRError
from compiler.tir.nodes import Buffer, Var

T = TypeVar("T")


class IRBuilder:
    """Collects what the frames inside its `with` block make. `get()` gives it afterwards."""

    _current: ClassVar[ContextVar[IRBuilder | None]] = ContextVar("ir_builder", default=None)

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self._result: Any = None

    def __enter__(self) -> Self:
        self._token = IRBuilder._current.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        IRBuilder._current.reset(self._token)

    @staticmethod
    def current() -> IRBuilder:
        """The builder whose `with` block this is. Raises IRError outside of one."""
        found = IRBuilder._current.get()
        if found is None:
            raise IRError("this means something only inside an IRBuilder", hint="with IRBuilder() as ib: …")
        return found

    @staticmethod
    def is_in_scope() -> bool:
        """Whether there is a builder at hand."""
        return IRBuilder._current.get() is not None

    def get(self) -> Any:
        """Return what the outermost frame made. Raises IRError when there is nothing yet."""
        if self._result is None:
            raise IRError("the builder has made nothing yet", hint="call get() behind the frames")
        return self._result

    def finish(self, made: Any) -> None:
        """Keep what the outermost frame made. Raises IRError for a second one."""
        if self._result is not None:
            raise IRError("a builder makes one function, or one module of several")
        self._result = made

    @staticmethod
    def name(s: str, v: T) -> T:
        """Give a variable or buffer that was made here the name `s`, and return it."""
        if isinstance(v, Var | Buffer) and s:
            object.__setattr__(v, "name", s)
        return v

    @staticmethod
    def name_many(s: Sequence[str], vs: Sequence[T]) -> list[T]:
        """Name several, as `name` does one."""
        return [IRBuilder.name(*pair) for pair in zip(s, vs, strict=True)]


class Frame:
    """A `with` block of a builder. What is made inside is handed to `close` when it ends."""

    def __init__(self) -> None:
        self.items: list[Any] = []
        self._then: list[Callable[[], None]] = []

    def __enter__(self) -> Any:
        IRBuilder.current().frames.append(self)
        return self.value()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        builder = IRBuilder.current()
        assert builder.frames.pop() is self
        if kind is None:
            self.close(builder)

    def value(self) -> Any:
        """Return what `as` gives."""
        return self

    def close(self, builder: IRBuilder) -> None:
        """Make what the frame stands for of what it holds."""
        raise NotImplementedError(f"{type(self).__name__} has no close: a frame overrides it")


IRBuilderFrame = Frame


def frame_of(kind: type[T], what: str) -> T:
    """The innermost frame of a kind. Raises IRError when there is none."""
    for found in reversed(IRBuilder.current().frames):
        if isinstance(found, kind):
            return found
    raise IRError(f"{what} stands inside {kind.__name__.removesuffix('Frame')} frames")
