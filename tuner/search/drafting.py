"""Drafts of many kernels at once: this process and its helpers on other cores take turns.

A draft is some tenths of a second of Python. Helpers are forked from the process of build workers, which imports the
compiler meanwhile. A few kernels are therefore drafted before helpers come.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from threading import Thread

from compiler.target.target import Target
from compiler.tir import nodes as n
from tuner.build.spawning import main_not_imported, sigint_blocked, start_fork_server
from tuner.search.drafted import drafted

LEAST = 8
"""Kernels from which on helpers pay: with fewer, this process is done when they have come."""


@dataclass(frozen=True, slots=True)
class KernelDraft:
    """A kernel scheduled by its draft, and the draft's trace."""

    trace: str
    func: n.PrimFunc


def drafted_kernels(funcs: Sequence[n.PrimFunc], target: Target) -> list[KernelDraft | None]:
    """Each kernel's draft, None where there is none to pick."""
    helpers = min(len(os.sched_getaffinity(0)), len(funcs) // LEAST + 1) - 1
    if helpers < 1 or multiprocessing.current_process().daemon:  # which may have no children
        return [_draft(func, target) for func in funcs]
    return _Shared(funcs, target).run(helpers)


def _draft(func: n.PrimFunc, target: Target) -> KernelDraft | None:
    made = drafted(func, target)
    return None if made is None else KernelDraft(made.trace.to_json(), made.func)


def _draft_of(packed: bytes, target: str) -> KernelDraft | None:
    """`_draft`, in a helper."""
    return _draft(pickle.loads(packed), Target(target))  # made by this program, for its own child


class _Shared:
    """Kernels to draft: this process takes the first, helpers take the last, until they meet.

    The first helper is started by a thread, because a fork server answers only when it has imported the compiler.
    """

    def __init__(self, funcs: Sequence[n.PrimFunc], target: Target) -> None:
        self._funcs, self._target = funcs, target
        self._left = deque(range(len(funcs)))
        self._found: dict[int, KernelDraft | None] = {}
        self._given: dict[int, Future[KernelDraft | None]] = {}
        self._answered = False
        self._lock = threading.Lock()
        self._started = self._over = False

    def run(self, helpers: int) -> list[KernelDraft | None]:
        pool = ProcessPoolExecutor(helpers, multiprocessing.get_context("forkserver"), initializer=_begin)
        Thread(target=self._start, args=(pool, helpers), name="draft-helpers").start()
        try:
            while (at := self._next(self._left.popleft)) is not None:
                self._found[at] = _draft(self._funcs[at], self._target)
                self._take(pool)
            self._finish(helpers)
        finally:
            with self._lock:
                self._over, ends = True, self._started
            if ends:
                pool.shutdown(wait=False, cancel_futures=True)
        return [self._found[at] for at in range(len(self._funcs))]

    def _start(self, pool: ProcessPoolExecutor, helpers: int) -> None:
        """Give each helper its first kernels. When all are done by then, the pool is of no use any more."""
        for _ in range(helpers):
            self._give(pool)
        with self._lock:
            self._started, over = True, self._over
        if over:
            pool.shutdown(wait=False, cancel_futures=True)

    def _next(self, take: Callable[[], int]) -> int | None:
        """The number of a kernel that nobody has begun; None where there is none left."""
        try:
            return take()
        except IndexError:
            return None

    def _finish(self, helpers: int) -> None:
        """Draft what helpers have not begun, then wait for their drafts.
        A helper that has not answered yet is not waited for, because it may only be starting."""
        pending = [at for at, future in list(self._given.items()) if not future.done()]
        most = helpers if self._answered else 0
        while len(pending) > most:
            at = pending.pop()
            if not self._given[at].done():
                self._found[at] = _draft(self._funcs[at], self._target)
        wait([self._given[at] for at in pending])
        for at, func in enumerate(self._funcs):
            if at not in self._found:
                future = self._given.get(at)
                made = future is not None and future.done() and future.exception() is None
                self._found[at] = future.result() if made and future else _draft(func, self._target)

    def _give(self, pool: ProcessPoolExecutor) -> None:
        """Give a helper two kernels. It begins the second while this process drafts one of its own."""
        for _ in range(2):
            at = self._next(self._left.pop)
            if at is None:
                return
            try:
                start_fork_server()
                with sigint_blocked(), main_not_imported():
                    self._given[at] = pool.submit(_draft_of, pickle.dumps(self._funcs[at]), str(self._target))
            except (OSError, EOFError, RuntimeError):  # no process can be started: this one does it all
                self._left.append(at)
                return

    def _take(self, pool: ProcessPoolExecutor) -> None:
        """Take what helpers have made, and give them more."""
        done = [at for at, future in list(self._given.items()) if future.done()]
        for at in done:
            future = self._given.pop(at)
            if future.exception() is None:
                self._found[at] = future.result()
            else:  # it died: what it was at is done here
                self._found[at] = _draft(self._funcs[at], self._target)
        if done:
            self._answered = True
            self._give(pool)


def _begin() -> None:
    """Ignore Ctrl-C in a helper: this program handles it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
