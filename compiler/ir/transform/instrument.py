"""Watching passes: what a context tells its instruments, and instruments that time and print."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from compiler.ir.module import IRModule
from compiler.ir.transform.config import TransformError
from compiler.ir.transform.passes import PassInfo


class PassInstrument:
    """Override what is of interest. Nothing is called outside `with PassContext(instruments=[...])`."""

    def enter_pass_ctx(self) -> None:
        """The context begins."""

    def exit_pass_ctx(self) -> None:
        """The context ends."""

    def should_run(self, mod: IRModule, info: PassInfo) -> bool:
        """Whether a pass may run; one the context requires runs in any case."""
        return True

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        """A pass is about to run on `mod`."""

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        """A pass has made `mod`."""


def pass_instrument(pi_cls: Any = None) -> Any:
    """Make an instrument of a class that has any of the hooks of `PassInstrument`.

    Raises TransformError for what is no class.
    """

    def make(cls: Any) -> Any:
        if not inspect.isclass(cls):
            raise TransformError(f"@pass_instrument decorates a class, not {cls!r}")
        if issubclass(cls, PassInstrument):
            return cls
        names = {"__doc__": cls.__doc__, "__module__": cls.__module__, "__qualname__": cls.__qualname__}
        # the class comes first, so that its hooks are found before the empty ones
        return type(cls.__name__, (cls, PassInstrument), names)

    return make if pi_cls is None else make(pi_cls)


@dataclass
class _Timing:
    """How long a pass took, in seconds, and those that ran within it."""

    name: str
    started: float
    seconds: float = 0.0
    inner: list[_Timing] = field(default_factory=list)


class PassTimingInstrument(PassInstrument):
    """Times every pass.
    `render()` inside the context gives the table: it is emptied when the context ends."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._open: list[_Timing] = []
        self._done: list[_Timing] = []

    def exit_pass_ctx(self) -> None:
        self._open, self._done = [], []

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        self._open.append(_Timing(info.name, self._clock()))

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        now = self._clock()
        # passes that raised left theirs open above this one
        while self._open and self._open[-1].name != info.name:
            self._open.pop()
        if not self._open:
            return
        timing = self._open.pop()
        timing.seconds = now - timing.started
        (self._open[-1].inner if self._open else self._done).append(timing)

    def render(self) -> str:
        """Return a line for each pass: microseconds in all and in itself, and its share of the outer pass.
        Inner passes are indented."""
        total = sum(timing.seconds for timing in self._done)
        lines = [line for timing in self._done for line in _lines(timing, 0, total)]
        return "\n".join([*lines, f"total: {total * 1e6:.0f} us"]) + "\n"


def _lines(timing: _Timing, depth: int, around: float) -> list[str]:
    inside = sum(inner.seconds for inner in timing.inner)
    share = 100 * timing.seconds / around if around else 0.0
    own = f"{timing.seconds * 1e6:.0f} us [{(timing.seconds - inside) * 1e6:.0f} us] ({share:.1f}%)"
    head = f"{'  ' * depth}{timing.name}: {own}"
    return [head, *(line for inner in timing.inner for line in _lines(inner, depth + 1, timing.seconds))]


class PassPrintingInstrument(PassInstrument):
    """Prints the module before the passes of some names, and after those of others."""

    def __init__(
        self, print_before_pass_names: Collection[str] = (), print_after_pass_names: Collection[str] = ()
    ) -> None:
        self.print_before_pass_names = print_before_pass_names
        self.print_after_pass_names = print_after_pass_names

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        if info.name in self.print_before_pass_names:
            print(f"# before {info.name}\n{mod.script()}")

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        if info.name in self.print_after_pass_names:
            print(f"# after {info.name}\n{mod.script()}")


class PrintBeforeAll(PassInstrument):
    """Prints the module before each pass."""

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        print(f"# before {info.name}\n{mod.script()}")


class PrintAfterAll(PassInstrument):
    """Prints the module after each pass."""

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        print(f"# after {info.name}\n{mod.script()}")
