"""Where in the user's file a te call stands."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, TracebackType

import compiler
from compiler.errors import IRError
from compiler.ir.base import Span

_OWN = str(Path(compiler.__path__[0])) + "/"


def _is_own(frame: FrameType) -> bool:
    """Whether the frame runs the compiler's code: a file of it, or what a dataclass in one generated."""
    module = str(frame.f_globals.get("__name__", ""))
    return frame.f_code.co_filename.startswith(_OWN) or module.startswith("compiler.")


def caller_span() -> Span | None:
    """The innermost line on the call stack that is not the compiler's own."""
    frame = sys._getframe(1)
    while frame is not None:
        if not _is_own(frame):
            return Span(frame.f_code.co_filename, frame.f_lineno)
        frame = frame.f_back  # type: ignore[assignment]
    return None


def raising_span(error: BaseException) -> Span | None:
    """The innermost line outside the compiler that `error` passed through."""
    found: Span | None = None
    trace: TracebackType | None = error.__traceback__
    while trace is not None:
        if not _is_own(trace.tb_frame):
            found = Span(trace.tb_frame.f_code.co_filename, trace.tb_lineno)
        trace = trace.tb_next
    return found


def at(span: Span | None) -> str:
    """Format `span` as the end of a message: " (file.py:12)", or nothing."""
    return "" if span is None else f" ({span.source}:{span.line})"


def here() -> str:
    """Return the user's line as the end of a message."""
    return at(caller_span())


@contextmanager
def placing(what: str, span: Span | None) -> Iterator[None]:
    """Add the user's line to errors of a function that defines `what`.
    It is the line that raised them, else `span`."""
    try:
        yield
    except IRError as error:
        if error.message.startswith("in te."):
            raise
        where = raising_span(error)
        here = at(where if where is not None else span)
        message = error.message if here in error.message else error.message + here
        raise IRError(f"in te.{what}: {message}", hint=error.hint, detail=error.detail) from error
