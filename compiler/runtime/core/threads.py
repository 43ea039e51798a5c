"""How many threads `parallel` loops use. The pool itself is native code: see native.ll.

Threads claim chunks of a loop's tasks from a shared counter, spin briefly when idle, then park. A parallel
loop inside another, or started while one is active, runs serially. A forked child starts its own pool.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence

from compiler.errors import ArgumentError
from compiler.runtime.core import native

_lock = threading.Lock()
_pinned: tuple[int, ...] = ()
_before_pinning: dict[int, set[int]] = {}
"""Affinity masks of threads that were pinned here, by native thread id, to go back to."""


def num_threads() -> int:
    """Threads a `parallel` loop uses, the calling one included. By default one per available core."""
    return native.threads()


def set_num_threads(count: int) -> None:
    """Use `count` threads from the next parallel loop on; 1 runs every loop on the calling thread.

    Raises ArgumentError unless 1 <= count <= 1024.
    """
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= native.MAX_THREADS:
        raise ArgumentError(f"the number of threads is from 1 to {native.MAX_THREADS}, not {count!r}")
    native.set_threads(count)


def affinity() -> tuple[int, ...]:
    """The cores `set_affinity` pinned the threads of parallel loops to; empty when the system places them."""
    return _pinned


def set_affinity(cores: Sequence[int] | None) -> None:
    """Pin the calling thread to the first of `cores`, and each thread of `parallel` loops to another.

    From the next loop on, loops use one thread a core. None ends that: the calling thread gets back the cores it had,
    and the pool one thread for each of them. Raises ArgumentError for cores this process may not run on, or twice
    the same.
    """
    global _pinned
    with _lock:
        chosen = _checked_cores(cores)
        caller = threading.get_native_id()
        if chosen:
            _before_pinning.setdefault(caller, os.sched_getaffinity(0))
            native.set_cores(chosen[1:])
            os.sched_setaffinity(0, {chosen[0]})
            native.set_threads(len(chosen))
        elif _pinned:
            native.set_cores(())
            os.sched_setaffinity(0, _before_pinning.pop(caller, _allowed_cores()))
            native.set_threads(len(os.sched_getaffinity(0)))
        _pinned = chosen


def _checked_cores(cores: Sequence[int] | None) -> tuple[int, ...]:
    chosen = tuple(cores or ())
    allowed = _allowed_cores()
    wrong = [core for core in chosen if isinstance(core, bool) or core not in allowed]
    if wrong or len(set(chosen)) != len(chosen):
        said = f"core {wrong[0]!r} is not one of them" if wrong else "one is named twice"
        raise ArgumentError(f"cannot pin threads to cores {list(chosen)}: {said}", hint=f"cores: {sorted(allowed)}")
    return chosen


def _allowed_cores() -> set[int]:
    """The cores this process could run on before anything was pinned here."""
    return set().union(os.sched_getaffinity(0), *_before_pinning.values())
