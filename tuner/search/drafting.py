"""Drafts of many kernels at once: this process and its helpers on other cores take turns.

A draft is some tenths of a second of Python. Helpers are forked from the process that build workers are forked from,
which imports the compiler meanwhile, so a few kernels are drafted before they have come.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from dataclasses import dataclass

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
    """Kernels to draft: this process takes the first, helpers take the last, until they meet."""

    def __init__(self, funcs: Sequence[n.PrimFunc], target: Target) -> None:
        self._funcs, self._target = funcs, target
        self._left = deque(range(len(funcs)))
        self._found: dict[int, KernelDraft | None] = {}
        self._given: dict[int, Future[KernelDraft | None]] = {}
        self._answered = False

    def run(self, helpers: int) -> list[KernelDraft | None]:
        pool = ProcessPoolExecutor(helpers, multiprocessing.get_context("forkserver"), initializer=_begin)
        try:
            for _ in range(helpers):
                self._give(pool)
            while self._left:
                at = self._left.popleft()
                self._found[at] = _draft(self._funcs[at], self._target)
                self._take(pool)
            self._finish()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
        return [self._found[at] for at in range(len(self._funcs))]

    def _finish(self) -> None:
        """Wait for helpers that are at their last kernels. From one that has not answered yet nothing is expected: it
        may only be starting."""
        if self._answered:
            wait(self._given.values())
        for at, future in self._given.items():
            made = future.done() and future.exception() is None
            self._found[at] = future.result() if made else _draft(self._funcs[at], self._target)

    def _give(self, pool: ProcessPoolExecutor) -> None:
        """Give a helper two kernels: it begins the second while this process is at one of its own."""
        for _ in range(2):
            if not self._left:
                return
            at = self._left.pop()
            try:
                start_fork_server()
                with sigint_blocked(), main_not_imported():
                    self._given[at] = pool.submit(_draft_of, pickle.dumps(self._funcs[at]), str(self._target))
            except (OSError, EOFError, RuntimeError):  # no process can be started: this one does it all
                self._left.append(at)
                return

    def _take(self, pool: ProcessPoolExecutor) -> None:
        """Take what helpers have made, and give them more."""
        done = [at for at, future in self._given.items() if future.done()]
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
