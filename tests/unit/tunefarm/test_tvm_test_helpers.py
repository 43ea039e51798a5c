"""The modules that tests written for Apache TVM import, and refused names that a program imports and never uses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tunefarm as tvm
from compiler.runtime.core import registry
from compiler.script.entry import from_source
from tunefarm import error, te, tir
from tunefarm.contrib import cblas, dlpack, random
from tunefarm.contrib.pickle_memoize import memoize
from tunefarm.submodules import RefusedName
from tunefarm.testing import autotvm as autotvm_tasks
from tunefarm.testing import check_numerical_grads, functions, popen_pool
from tunefarm.tir.schedule.testing import assert_structural_equal_ignore_global_symbol, verify_trace_roundtrip
from tunefarm.topi import testing as numpy_operators


def test_a_refused_name_is_imported_and_says_why_when_it_is_used() -> None:
    from tunefarm.rpc import PopenSession  # type: ignore[attr-defined]

    assert isinstance(PopenSession, RefusedName)
    with pytest.raises(NotImplementedError, match=r"rpc\.LocalSession"):
        PopenSession("server")
    with pytest.raises(NotImplementedError, match=r"rpc\.LocalSession"):
        type("Mine", PopenSession.__mro_entries__(()), {})
    with pytest.raises(ImportError):
        from tunefarm.rpc import NoSuchName  # type: ignore[attr-defined]  # noqa: F401


TEXT = """
@T.prim_func
def main(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32")):
    for i, j in T.grid(16, 16):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
"""


def written() -> tir.PrimFunc:
    func = from_source(TEXT)
    assert isinstance(func, tir.PrimFunc)
    return func


def test_a_schedule_s_steps_are_taken_again() -> None:
    sch = tir.Schedule(written())
    i, j = sch.get_loops(sch.get_block("B"))
    sch.vectorize(sch.split(j, [None, 4])[1])
    made = verify_trace_roundtrip(sch, written())
    assert_structural_equal_ignore_global_symbol(made.func, sch.func.with_attr("global_symbol", "other"))
    with pytest.raises(ValueError):
        assert_structural_equal_ignore_global_symbol(made.func, written())
    sch.parallel(i)
    with pytest.raises(ValueError, match="'json' or 'python'"):
        verify_trace_roundtrip(sch, written(), text_format="yaml")


def test_callbacks_go_through_the_registry() -> None:
    called: list[int] = []
    functions.test_wrap_callback(lambda: called.append(1))()
    assert called == [1]
    with pytest.raises(ValueError, match="no"):
        functions.test_raise_error_callback("ValueError: no")()
    with pytest.raises(error.OpError):
        functions.test_raise_error_callback("OpError: no")()
    functions.test_check_eq_callback("differ")(1, 1)
    with pytest.raises(tvm.TVMError, match="differ"):
        functions.test_check_eq_callback("differ")(1, 2)
    assert functions.ErrorTest(1, 0) == 1
    popen_pool.register_ffi()
    assert popen_pool.call_cpp_py_ffi(3) == 3
    registry.remove_global_func("testing.nested_identity")


def test_gradients_are_compared_with_differences() -> None:
    x = np.linspace(-1, 1, 5)
    check_numerical_grads(lambda v: np.sum(v**2), [x], [2 * x])
    check_numerical_grads(lambda v: np.sum(v**2), {"v": x}, {"v": 2 * x})
    with pytest.raises(AssertionError, match="gradient"):
        check_numerical_grads(lambda v: np.sum(v**2), [x], [3 * x + 1])
    i, n = te.var("i"), te.var("n")
    functions.check_bool_expr_is_true(i < 4, {i: tvm.ir.Range(0, 4)})
    functions.check_bool_expr_is_true(i < n, {i: tvm.ir.Range(0, 4), n: tvm.ir.Range(0, 6)}, cond=n > 3)
    with pytest.raises(AssertionError, match="i = 3"):
        functions.check_bool_expr_is_true(i < 3, {i: tvm.ir.Range(0, 4)})


def test_kernels_call_numpy_and_its_random_numbers() -> None:
    a, b = te.placeholder((5, 3), name="A"), te.placeholder((4, 3), name="B")
    c = cblas.matmul(a, b, transb=True)
    kernel = dlpack.to_pytorch_func(tvm.build(te.create_schedule(c.op), [a, b, c], "llvm"))
    x, y = np.random.default_rng(0).random((2, 5, 3), "float32")
    out = tvm.nd.empty((5, 4))
    kernel(tvm.nd.array(x), tvm.nd.array(y[:4]), out)
    np.testing.assert_allclose(out.numpy(), x @ y[:4].T, rtol=1e-5)
    drawn = [random.uniform(0, 1, (64,)), random.normal(3, 4, (64,)), random.randint(2, 9, (64,))]
    values = []
    for tensor in drawn:
        values.append(tvm.nd.empty((64,), tensor.dtype))
        tvm.build(te.create_schedule(tensor.op), [tensor], "llvm")(values[-1])
    assert 0 <= values[0].numpy().min() <= values[0].numpy().max() < 1
    assert np.ptp(values[1].numpy()) > 1
    assert set(values[2].numpy()) <= set(range(2, 9))


def test_results_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    calls: list[int] = []

    def double(x: int) -> int:
        calls.append(x)
        return 2 * x

    assert [memoize("double", save_at_exit=True)(double)(4) for _ in range(2)] == [8, 8]
    assert calls == [4]


def test_sample_tasks_of_autotvm() -> None:
    records = autotvm_tasks.get_sample_records(3)
    assert [result.costs[0] for _, result in records] == [1.0, 1 / 2, 1 / 3]
    given = [inp for inp, _ in records]
    assert len(autotvm_tasks.DummyRunner().run(given, [None] * 3)) == 3


def test_numpy_operators() -> None:
    rng = np.random.default_rng(0)
    image, filters = rng.random((1, 4, 6, 6)), rng.random((4, 2, 3, 3))
    out = numpy_operators.conv2d_nchw_python(image, filters, 2, "SAME", groups=2)
    padded = np.pad(image, ((0, 0), (0, 0), (0, 1), (0, 1)))
    wanted = np.sum(padded[0, 2:, 2:5, 2:5] * filters[2])
    assert out.shape == (1, 4, 3, 3)
    assert out[0, 2, 1, 1] == pytest.approx(wanted)
    nhwc = numpy_operators.conv2d_nhwc_python(image.transpose(0, 2, 3, 1), rng.random((3, 3, 4, 5)), 1, 1)
    assert nhwc.shape == (1, 6, 6, 5)
    assert numpy_operators.softmax_python(image, 1).sum(axis=1) == pytest.approx(np.ones((1, 6, 6)))
    assert numpy_operators.dilate_python(np.ones((2, 2)), (2, 3)).sum() == 4
    assert numpy_operators.dilate_python(np.ones((2, 2)), (2, 3)).shape == (3, 4)
