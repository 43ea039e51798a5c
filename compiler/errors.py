"""The error tree. Every error a user can meet derives from `TunefarmError`.

An error says what was wrong and where (`message`), what to do next (`hint`), and carries data for
machines (`detail`). `kind` is a stable name: it travels over the wire and into records, and the other
side raises the class registered under it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

_KINDS: dict[str, type[TunefarmError]] = {}


class TunefarmError(RuntimeError):
    """Base of every error raised on purpose by tunefarm; a RuntimeError, as that of Apache TVM is.

    A subclass says its `kind`, unique over the whole tree: `class PortError(TunefarmError, kind="port")`. Without one,
    it travels as its base.
    """

    kind: ClassVar[str] = "error"

    def __init_subclass__(cls, *, kind: str | None = None, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        kind = cls.__dict__.get("kind", kind)
        if kind is not None:
            cls.kind = kind
            taken = _KINDS.setdefault(kind, cls)
            if (taken.__module__, taken.__qualname__) != (cls.__module__, cls.__qualname__):
                raise TypeError(f"error kind {kind!r} is already used by {taken.__module__}.{taken.__qualname__}")
            _KINDS[kind] = cls

    def __init__(self, message: str = "", *, hint: str | None = None, detail: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.detail: dict[str, Any] = dict(detail or {})

    def __str__(self) -> str:
        return f"{self.message}\n  hint: {self.hint}" if self.hint else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self.hint, self.detail)


def _rebuild(cls: type[TunefarmError], message: str, hint: str | None, detail: dict[str, Any]) -> TunefarmError:
    return cls(message, hint=hint, detail=detail)


_KINDS[TunefarmError.kind] = TunefarmError


def error_from_kind(
    kind: str, message: str, *, hint: str | None = None, detail: Mapping[str, Any] | None = None
) -> TunefarmError:
    """Rebuild an error that travelled as data. An unknown kind becomes a plain `TunefarmError` naming it."""
    cls = _KINDS.get(kind)
    if cls is None:
        return TunefarmError(f"{kind}: {message}", hint=hint, detail=detail)
    return cls(message, hint=hint, detail=detail)


class CompileError(TunefarmError, kind="compile"):
    """The compiler refused a program."""


class IRError(CompileError, ValueError, TypeError, kind="ir"):
    """A malformed piece of IR: wrong dtype, rank, or node in the wrong place."""


class ScheduleError(CompileError, kind="schedule"):
    """A schedule step that is illegal on this function."""


class LostReferenceError(ScheduleError, ValueError):
    """A schedule step on a loop or block that is no longer in the function."""


class StepTypeError(ScheduleError, TypeError):
    """A schedule step with an input or attribute of the wrong type."""


class LoweringError(CompileError, kind="lowering"):
    """A lowering pass met something it has no rule for."""


class CodegenError(CompileError, kind="codegen"):
    """No machine code can be made for this function on this target."""


class TargetError(CompileError, ValueError, kind="target"):
    """An unknown target kind or option."""


class ArtifactError(TunefarmError, kind="artifact"):
    """Bytes that are no artifact, or an artifact this machine cannot run."""


class UnreadableModuleError(ArtifactError, ValueError):
    """A file of a module that is not there or cannot be read."""


class DeviceError(TunefarmError, kind="device"):
    """A device that is absent or failed."""


class ArgumentError(TunefarmError, ValueError, TypeError, kind="argument"):
    """A kernel argument of the wrong count, dtype, shape, layout or device."""
