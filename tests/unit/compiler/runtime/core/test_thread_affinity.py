"""Pinning the threads of parallel loops, in processes of their own: a test's thread keeps its cores."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

from compiler.errors import ArgumentError
from compiler.runtime.core.threads import affinity, set_affinity

PRELUDE = """
import ctypes, os, threading
from compiler.runtime.core import native, threads
TASK = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)

def cores_used(tasks=64):
    seen = {}
    started = threading.Barrier(threads.num_threads())
    def task(index, context):
        thread = threading.get_native_id()
        if thread not in seen:
            seen[thread] = os.sched_getaffinity(0)
            started.wait(timeout=120)  # until every thread of the pool has a task
    native.load().parallel_for(ctypes.cast(TASK(task), ctypes.c_void_p), None, tasks)
    return sorted(map(sorted, seen.values()))
"""


def run(code: str) -> None:
    subprocess.run([sys.executable, "-c", PRELUDE + textwrap.dedent(code)], check=True, timeout=300)


needs_two_cores = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="this process may use one core only")


@needs_two_cores
def test_one_thread_a_core_and_back() -> None:
    run("""
        before = os.sched_getaffinity(0)
        first, second, *_ = sorted(before)
        assert threads.affinity() == ()
        threads.set_affinity([second, first])
        assert threads.num_threads() == 2 and threads.affinity() == (second, first)
        assert os.sched_getaffinity(0) == {second}
        assert cores_used() == [[first], [second]]
        threads.set_affinity(None)
        assert threads.affinity() == () and os.sched_getaffinity(0) == before
        assert threads.num_threads() == len(before)
        assert all(set(cores) == before for cores in cores_used())
    """)


@needs_two_cores
def test_pinned_again_elsewhere() -> None:
    run("""
        first, second, *_ = sorted(os.sched_getaffinity(0))
        threads.set_affinity([first])
        assert threads.num_threads() == 1
        threads.set_affinity([second, first])
        assert os.sched_getaffinity(0) == {second}
        assert cores_used() == [[first], [second]]
    """)


def test_cores_that_cannot_be_used() -> None:
    core = min(os.sched_getaffinity(0))
    with pytest.raises(ArgumentError, match="core 5000 is not one of them"):
        set_affinity([core, 5000])
    with pytest.raises(ArgumentError, match="one is named twice"):
        set_affinity([core, core])
    assert affinity() == ()
