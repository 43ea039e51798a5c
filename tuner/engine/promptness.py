"""Settings of the interpreter during a run, so that devices and builders do not wait for its threads."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_SWITCH_S = 5e-4
_lock = threading.Lock()
_runs = 0
_before = 0.0


@contextmanager
def prompt_threads() -> Iterator[None]:
    """Let threads with an answer of a device or a builder run soon, as long as this lasts.

    Such a thread gets the interpreter from a computing one, such as a thinking search, within half a millisecond.
    Python's default of 5 ms, after each time it blocked, left a device idle until the thinking was over. Garbage
    collections skip everything that existed before, such as all modules. Looking through that takes tens of
    milliseconds, in which nothing else happens. Both settings are restored when the last of several has ended.
    """
    _enter()
    try:
        yield
    finally:
        _leave()


def _enter() -> None:
    global _runs, _before
    with _lock:
        _runs += 1
        if _runs == 1:
            _before = sys.getswitchinterval()
            sys.setswitchinterval(min(_before, _SWITCH_S))
            gc.freeze()


def _leave() -> None:
    global _runs
    with _lock:
        _runs -= 1
        if _runs == 0:
            sys.setswitchinterval(_before)
            gc.unfreeze()
