"""Parallel loops whose tasks fail: the caller gets the error, the other tasks run, the pool goes on."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from compiler.driver import build as driver
from compiler.runtime.core.code.cpu_function import KernelError
from compiler.runtime.core.device import cpu
from compiler.runtime.core.module import Module
from compiler.runtime.core.ndarray import NDArray, array, empty
from compiler.runtime.core.threads import num_threads, set_num_threads
from compiler.runtime.load import load_module
from compiler.tir import nodes as n
from compiler.tir import ops
from tests.kit.compiler.library import needs_cc
from tests.kit.places import python_path

COUNT = 64
FINE = np.full(COUNT, 2, "float32")


@pytest.fixture(autouse=True)
def restore_threads() -> Iterator[None]:
    before = num_threads()
    yield
    set_num_threads(before)


def checked(nested: bool = False) -> Module:
    """B[i] = A[i] in parallel, asserting that A[i] > 1; `nested`: from within one more parallel loop."""
    a, b = (n.decl_buffer((COUNT,), "float32", name) for name in "AB")
    outer, inner = n.Var("o", "int32"), n.Var("i", "int32")
    index = outer * 8 + inner
    store = n.BufferStore(b, n.BufferLoad(a, (index,)), (index,))
    check: n.Stmt = n.AssertStmt(n.BufferLoad(a, (index,)) > 1, n.StringImm("too small"), store)
    kind = n.ForKind.PARALLEL if nested else n.ForKind.SERIAL
    row = n.For(inner, ops.const(0), ops.const(8), kind, check)
    body = n.For(outer, ops.const(0), ops.const(8), n.ForKind.PARALLEL, row)
    params = n.Var("A", "handle"), n.Var("B", "handle")
    func = n.PrimFunc(params, body, buffer_map=dict(zip(params, (a, b))), attrs={"global_symbol": "checked"})
    return driver.build(func, target="llvm", name="checked")


def values(*wrong: int) -> NDArray:
    held = FINE.copy()
    held[list(wrong)] = 0
    return array(held)


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("wrong", [(0,), (COUNT - 1,), (9, 20, 41)], ids=str)
def test_one_task_fails(threads: int, nested: bool, wrong: tuple[int, ...], capfd: pytest.CaptureFixture[str]) -> None:
    set_num_threads(threads)
    module = checked(nested)
    for _ in range(20):
        out = empty((COUNT,))
        with pytest.raises(KernelError, match="checked failed with code 1"):
            module(values(*wrong), out)
        module(values(), out)  # the pool goes on
        np.testing.assert_array_equal(out.numpy(), FINE)
    assert capfd.readouterr().err.count("checked: too small") >= 20
    assert num_threads() == threads


def test_every_other_task_still_runs(capfd: pytest.CaptureFixture[str]) -> None:
    set_num_threads(3)
    out = array(np.zeros(COUNT, "float32"))
    with pytest.raises(KernelError):
        checked()(values(9), out)
    written = out.numpy()
    assert not written[9:16].any()  # the task that failed stopped there
    assert written[:9].all()
    assert written[16:].all()


def test_each_python_thread_gets_its_own_failures(capfd: pytest.CaptureFixture[str]) -> None:
    set_num_threads(3)
    module = checked()
    seen: dict[int, list[bool]] = {index: [] for index in range(4)}

    def work(index: int) -> None:
        out = empty((COUNT,))
        for turn in range(100):
            fails = (turn + index) % 2 == 0
            try:
                module(values(5) if fails else values(), out)
                seen[index].append(not fails)
            except KernelError:
                seen[index].append(fails)

    workers = [threading.Thread(target=work, args=(index,)) for index in seen]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert all(len(said) == 100 and all(said) for said in seen.values())


def test_a_failure_while_timed(capfd: pytest.CaptureFixture[str]) -> None:
    set_num_threads(2)
    module, out = checked(), empty((COUNT,))
    with pytest.raises(KernelError, match="code 1"):
        module.time_evaluator("checked", cpu(), number=5)(values(3), out)
    assert module.time_evaluator("checked", cpu(), number=5)(values(), out).mean > 0


@needs_cc
def test_a_failure_in_a_loaded_library(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    set_num_threads(2)
    checked().export_library(str(tmp_path / "lib.so"))
    module, out = load_module(str(tmp_path / "lib.so")), empty((COUNT,))
    with pytest.raises(KernelError, match="code 1"):
        module(values(3), out)
    module(values(), out)
    np.testing.assert_array_equal(out.numpy(), FINE)


@needs_cc
def test_a_forked_child_fails_by_itself(tmp_path: Path) -> None:
    code = f"""
        import os
        import numpy as np
        from compiler.runtime.core.code.cpu_function import KernelError
        from compiler.runtime.load import load_module
        from compiler.runtime.core.threads import set_num_threads
        from tests.unit.compiler.runtime.core.test_parallel_failures import FINE, checked, values
        from compiler.runtime.core.ndarray import empty

        set_num_threads(3)
        built = checked()
        built.export_library({str(tmp_path / "lib.so")!r})
        modules, out = [built, load_module({str(tmp_path / "lib.so")!r})], empty(FINE.shape)
        for module in modules:
            module(values(), out)
        pid = os.fork()
        for module in modules:
            for _ in range(10):
                module(values(), out)
                assert (out.numpy() == FINE).all()
                if pid == 0:
                    try:
                        module(values(7), out)
                        os._exit(1)
                    except KernelError:
                        pass
        if pid == 0:
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
    """
    environment = {**os.environ, "PYTHONPATH": python_path()}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], env=environment, timeout=120, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
