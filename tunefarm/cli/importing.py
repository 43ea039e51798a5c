"""Ctrl-C and SIGTERM while a command still imports."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

EXIT_INTERRUPTED = 130


@contextmanager
def ends_quietly() -> Iterator[None]:
    """Let SIGINT or SIGTERM end this process at once, with a word and the status of an interrupted one.

    It is for imports. They run code of others, which may show an unexpected exception as something else, or lose it.
    Nothing has begun yet that would have to be finished. Processes started already notice that this one is gone.
    Only the main thread can handle signals; in others this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, _end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(_number: int, _frame: FrameType | None) -> None:
    os.write(2, b"interrupted\n")
    os._exit(EXIT_INTERRUPTED)
