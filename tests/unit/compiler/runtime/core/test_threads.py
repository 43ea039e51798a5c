"""The pool behind `parallel` loops: every task once, nesting, forks, Python threads, thread counts."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from compiler.errors import ArgumentError
from compiler.runtime.core import native
from compiler.runtime.core.device import cpu
from compiler.runtime.core.ndarray import zeros
from compiler.runtime.core.threads import num_threads, set_num_threads
from compiler.runtime.load import load_artifact
from tests.kit.compiler.llvm_kernels import PARALLEL, PARALLEL_ENTRY, artifact
from tests.kit.places import python_path

TASK = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)
EXPECTED = np.arange(4096)


@pytest.fixture(autouse=True)
def restore_threads() -> Iterator[None]:
    before = num_threads()
    yield
    set_num_threads(before)


def parallel_for(task: object, count: int) -> int:
    code: int = native.load().parallel_for(ctypes.cast(task, ctypes.c_void_p), None, count)  # type: ignore[arg-type]
    return code


def test_default_is_the_affinity_mask() -> None:
    code = """
        import os
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        from compiler.runtime.core import native, threads
        assert threads.num_threads() == 1
        native.load()
        assert threads.num_threads() == 1
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)


@pytest.mark.parametrize("count", [0, -1, 1025, 2.0, True, "2"])
def test_impossible_counts(count: int) -> None:
    with pytest.raises(ArgumentError, match="from 1 to 1024"):
        set_num_threads(count)


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("tasks", [0, 1, 2, 3, 7, 1000])
def test_every_task_runs_once(threads: int, tasks: int) -> None:
    set_num_threads(threads)
    assert num_threads() == threads
    lock, seen = threading.Lock(), []

    def task(index: int, context: object) -> None:
        with lock:
            seen.append(index)

    assert parallel_for(TASK(task), tasks) == 0
    assert sorted(seen) == list(range(tasks))


def test_several_threads_take_part() -> None:
    """Three tasks are under way at once; on a machine whose cores are busy not at every attempt."""
    set_num_threads(3)
    for _ in range(30):
        everyone, names = threading.Barrier(3), set()

        def task(index: int, context: object, everyone=everyone, names=names) -> None:
            with contextlib.suppress(threading.BrokenBarrierError):
                everyone.wait(timeout=2)
                names.add(threading.get_native_id())

        parallel_for(TASK(task), 3)
        if len(names) == 3:
            return
    pytest.fail("never three threads at once")


def test_timed_launches_have_their_threads_even_after_a_stall() -> None:
    """One that waited for a worker without a core would leave the next ones to one thread, and a sample with them."""
    set_num_threads(2)
    together: list[int] = []
    everyone = threading.Barrier(2)

    def stalls(index: int, context: object, caller: int = threading.get_native_id()) -> None:
        everyone.wait(timeout=60)
        if threading.get_native_id() != caller:
            time.sleep(0.05)  # the process uses no processor, as if another had it

    def waits(index: int, context: object) -> None:
        everyone.wait(timeout=60)
        together.append(index)

    def run(args: object) -> int:
        parallel_for(TASK(stalls), 2)
        parallel_for(TASK(waits), 2)
        return 0

    packed = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(run)
    assert native.load().time(ctypes.cast(packed, ctypes.c_void_p), None, 3) > 0
    assert sorted(together) == [0, 0, 0, 1, 1, 1]


def stall() -> bool:
    """Have the worker come late, by 0.1 s. False: there was none, the launch went alone."""
    caller, everyone = threading.get_native_id(), threading.Barrier(2)
    met: list[bool] = []

    def task(index: int, context: object) -> None:
        with contextlib.suppress(threading.BrokenBarrierError):
            everyone.wait(timeout=5)
            met.append(True)
        if threading.get_native_id() != caller:
            time.sleep(0.1)  # the process uses no processor, as if another had it

    parallel_for(TASK(task), 2)
    return len(met) == 2


def goes_alone() -> bool:
    names: set[int] = set()
    parallel_for(TASK(lambda index, context: (time.sleep(0.001), names.add(threading.get_native_id()))[1]), 8)
    return names == {threading.get_native_id()}


def test_launches_go_alone_after_two_stalls_and_not_after_one() -> None:
    """A worker that another process keeps from its core time and again is in the way; one that came late is not."""
    set_num_threads(2)
    for _ in range(30):  # what is "soon" is a matter of time, which a busy machine has little of
        time.sleep(0.6)
        if stall() and stall() and goes_alone():
            return
    pytest.fail("two stalls, one after the other, never made a launch go alone")


def test_stalls_that_take_less_time_than_lies_between_send_no_launch_alone() -> None:
    """One of two threads would be lost for all of it, to save less than half."""
    set_num_threads(2)
    for _ in range(30):
        while goes_alone():  # after the stalls of another test
            time.sleep(0.1)
        time.sleep(0.6)
        late = stall()
        time.sleep(0.25)
        if late and stall() and not goes_alone():
            return
    pytest.fail("two stalls with a longer time between them made every launch go alone")


def test_one_thread_means_the_calling_one() -> None:
    set_num_threads(1)
    names: set[int] = set()
    parallel_for(TASK(lambda index, context: names.add(threading.get_native_id())), 10)
    assert names == {threading.get_native_id()}


def test_a_stuck_worker_delays_only_what_it_claimed() -> None:
    set_num_threads(2)
    stuck, rest = threading.Event(), threading.Semaphore(0)
    caller = threading.get_native_id()
    done: list[int] = []

    def task(index: int, context: object) -> None:
        if threading.get_native_id() != caller:
            stuck.wait(timeout=60)
        else:
            rest.acquire(timeout=0.01)  # lets the worker in
        done.append(index)
        if len(done) == 56:  # a worker claims an eighth at most: these are all the others
            stuck.set()

    parallel_for(TASK(task), 64)
    assert sorted(done) == list(range(64))


def test_changing_the_count_ends_and_starts_workers() -> None:
    """In a process that has no threads of other tests. The kernel lists a thread for a moment after it was joined."""
    code = """
        import ctypes, os, time
        from compiler.runtime.core import native
        from compiler.runtime.core.threads import set_num_threads
        task = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)(lambda index, context: None)
        threads = lambda: len(os.listdir("/proc/self/task"))
        set_num_threads(1)
        runtime = native.load()
        base = threads()
        for wanted in (4, 2, 5, 1):
            set_num_threads(wanted)
            deadline = time.monotonic() + 60
            runtime.parallel_for(ctypes.cast(task, ctypes.c_void_p), None, 100)
            while threads() != base + wanted - 1:
                assert time.monotonic() < deadline, (wanted, threads(), base)
                # After a stall (another process had the core) a launch may run alone, and starts nobody.
                runtime.parallel_for(ctypes.cast(task, ctypes.c_void_p), None, 100)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_kernel_with_a_parallel_loop(threads: int) -> None:
    set_num_threads(threads)
    module = load_artifact(artifact(PARALLEL, PARALLEL_ENTRY))
    out = zeros((4096,), "int64")
    for _ in range(200):
        module(out, 0)
    np.testing.assert_array_equal(out.numpy(), 200 * EXPECTED)


def test_nested_loops_run_serially() -> None:
    set_num_threads(4)
    module = load_artifact(artifact(PARALLEL, PARALLEL_ENTRY))
    out = zeros((4096,), "int64")
    module(out, 9)
    assert set(out.numpy().tolist()) == {9}


def test_loops_from_several_python_threads() -> None:
    set_num_threads(3)
    module = load_artifact(artifact(PARALLEL, PARALLEL_ENTRY))
    outs = [zeros((4096,), "int64") for _ in range(4)]

    def work(index: int) -> None:
        for _ in range(150):
            module(outs[index], 0)

    workers = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for worker in workers:
        worker.start()
    set_num_threads(2)  # while they run
    for worker in workers:
        worker.join()
    for out in outs:
        np.testing.assert_array_equal(out.numpy(), 150 * EXPECTED)


def test_many_small_launches() -> None:
    """Launches follow each other while workers are anywhere between claiming, spinning and parking."""
    set_num_threads(4)
    text = PARALLEL.replace("i64 4096", "i64 3")
    module = load_artifact(artifact(text, PARALLEL_ENTRY))
    out = zeros((4096,), "int64")
    evaluate = module.time_evaluator("par", cpu(), 20_000)
    evaluate(out, 0)
    assert out.numpy()[:4].tolist() == [0, 20_001, 40_002, 0]


def test_forked_child_has_its_own_pool() -> None:
    code = """
        import os, threading
        import numpy as np
        from compiler.runtime.load import load_artifact
        from compiler.runtime.core.ndarray import zeros
        from compiler.runtime.core.threads import set_num_threads
        from tests.kit.compiler.llvm_kernels import PARALLEL, PARALLEL_ENTRY, artifact

        set_num_threads(3)
        module = load_artifact(artifact(PARALLEL, PARALLEL_ENTRY))
        out = zeros((4096,), "int64")
        module(out, 0)

        stop = threading.Event()
        def busy():
            mine = zeros((4096,), "int64")
            while not stop.is_set():
                module(mine, 0)
        other = threading.Thread(target=busy)
        other.start()
        for _ in range(20):  # some forks fall into a launch of the other thread
            pid = os.fork()
            if pid == 0:
                child = zeros((4096,), "int64")
                for _ in range(20):
                    module(child, 0)
                ok = (child.numpy() == 20 * np.arange(4096)).all() and len(os.listdir("/proc/self/task")) == 3
                os._exit(0 if ok else 1)
            assert os.waitpid(pid, 0)[1] == 0
        stop.set()
        other.join()
        module(out, 0)
        assert (out.numpy() == 2 * np.arange(4096)).all()
    """
    environment = {**os.environ, "PYTHONPATH": python_path()}
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, env=environment, timeout=120)


def test_workers_leave_signals_to_python() -> None:
    set_num_threads(4)
    caller = threading.get_native_id()
    everyone = threading.Barrier(4)
    masks: list[int] = []

    def task(index: int, context: object) -> None:
        everyone.wait(timeout=60)
        if threading.get_native_id() != caller:
            status = Path("/proc/thread-self/status").read_text()
            masks.append(int(status.split("SigBlk:")[1].split()[0], 16))

    parallel_for(TASK(task), 4)
    assert len(masks) == 3
    for mask in masks:
        assert mask >> (signal.SIGINT - 1) & 1
        assert not mask >> (signal.SIGSEGV - 1) & 1


def test_process_ends_cleanly_while_workers_spin() -> None:
    code = """
        from compiler.runtime.core import native
        import ctypes
        native.load().set_threads(4)
        task = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)(lambda i, c: None)
        native.load().parallel_for(ctypes.cast(task, ctypes.c_void_p), None, 100)
    """
    for _ in range(5):
        subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, timeout=300)


# -- temporaries -------------------------------------------------------------------------------------------


def test_temporaries_are_aligned_and_reused() -> None:
    alloc, free = native.load().alloc, native.load().free
    for size in (0, 1, 63, 64, 65, 4096, 70_000, 1 << 20):
        block = alloc(size)
        assert block
        assert block % 64 == 0
        ctypes.memset(block, 0xAB, size)
        free(block)
    first = alloc(3 << 20)
    free(first)
    assert alloc(3 << 20) == first  # kept for the next call
    second = alloc(3 << 20)
    assert second != first
    free(first)
    free(second)
    free(None)


def test_sizes_no_longer_asked_for_do_not_keep_others_out() -> None:
    alloc, free = native.load().alloc, native.load().free
    stale = [alloc(64 << 20) for _ in range(8)]
    for block in stale:
        free(block)  # more than are kept, and too large to serve what follows
    first = alloc(5 << 20)
    free(first)
    libc = ctypes.CDLL(None)
    libc.aligned_alloc.restype, libc.aligned_alloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t] * 2
    libc.free.argtypes = [ctypes.c_void_p]
    beside = libc.aligned_alloc(64, (5 << 20) + 64)  # has its place, were it given back to the system
    assert alloc(5 << 20) == first
    free(first)
    libc.free(beside)


def test_impossible_temporaries_give_null() -> None:
    assert native.load().alloc(-1) is None
    assert native.load().alloc(1 << 60) is None


def test_temporaries_from_many_threads_do_not_overlap() -> None:
    alloc, free = native.load().alloc, native.load().free
    wrong: list[int] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(60):
            size = int(rng.integers(60_000, 200_000))
            block = alloc(size)
            ctypes.memset(block, seed, size)
            if set(ctypes.string_at(block, size)) != {seed}:
                wrong.append(seed)
            free(block)

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert wrong == []
