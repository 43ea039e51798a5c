"""How many threads `parallel` loops use. The pool itself is native code: see native.ll.

Threads claim chunks of a loop's tasks from a shared counter, spin briefly when idle, then park. A parallel
loop inside another, or started while one is active, runs serially. A forked child starts its own pool.
"""

from __future__ import annotations

from compiler.errors import ArgumentError
from compiler.runtime import native


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
