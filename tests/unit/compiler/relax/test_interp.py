"""Graph functions on numpy: operators, calls, control flow, closures; random graphs against numpy."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler import topi
from compiler.errors import ArgumentError, IRError, LoweringError
from compiler.interp.interpreter import AssertionFailed
from compiler.ir.base import GlobalVar
from compiler.ir.module import IRModule
from compiler.relax import nodes as r
from compiler.relax import op
from compiler.relax.analysis import assert_well_formed
from compiler.relax.block_builder import BlockBuilder
from compiler.relax.interp import run
from compiler.runtime.core.ndarray import array
from compiler.runtime.core.registry import register_func
from compiler.tir import nodes as n
from tests.kit.compiler.struct_info import tensor

K, M = n.Var("k", "int64"), n.Var("m", "int64")


def module(build: Any, *params: r.Var, pure: bool = True) -> IRModule:
    bb = BlockBuilder()
    with bb.function("main", list(params), pure=pure):
        bb.emit_func_output(build(bb))
    assert_well_formed(bb.get())
    return bb.get()


def test_arguments_are_checked() -> None:
    x, s = r.Var("x", tensor(K, K * 2)), r.Var("s", r.ShapeStructInfo((K,)))
    t = r.Var("t", r.TupleStructInfo((tensor(K),)))
    mod = module(lambda bb: x, x, s, t)
    ok = np.ones((2, 4), "float32"), (2,), (np.ones(2, "float32"),)
    assert run(mod, *ok) is ok[0]
    assert run(mod, array(ok[0]), *ok[1:]).shape == (2, 4)
    for position, bad, message in (
        (0, np.ones((2, 5), "float32"), r"the argument x is of shape \(2, 5\), not \(k, k \* 2\), which is \(2, 4\)"),
        (0, np.ones((2, 4)), r"the argument x is float64\[2, 4\]"),
        (0, np.ones(2, "float32"), r"of shape \(2,\)"),
        (0, 3, r"the argument x is 3 \(int\)"),
        (1, (3,), r"the argument s is of shape \(3,\)"),
        (1, 3, r"the argument s is 3 \(int\), no shape"),
        (2, (np.ones(3, "float32"),), r"the argument t\[0\] is of shape"),
        (2, (), "not a tuple of 1"),
    ):
        given_args: list[Any] = list(ok)
        given_args[position] = bad
        with pytest.raises(ArgumentError, match=message):
            run(mod, *given_args)
    with pytest.raises(ArgumentError, match="takes 3 arguments, got 1"):
        run(mod, ok[0])
    with pytest.raises(ArgumentError, match="no graph function"):
        run(IRModule({"main": topi_kernel()}), ok[0])


def topi_kernel() -> n.PrimFunc:
    bb, x = BlockBuilder(), r.Var("x", tensor(2))
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit_te(topi.nn.relu, x))
    func = bb.get()["relu"]
    assert isinstance(func, n.PrimFunc)
    return func


def test_scalars_and_constants() -> None:
    p = r.Var("p", r.PrimStructInfo("int64"))
    mod = module(lambda bb: [p, r.PrimValue(3), r.const(np.arange(3)), "text"], p)  # type: ignore[arg-type]
    first, second, third, text = run(mod, 7)
    assert (first, second, third.tolist(), text) == (7, 3, [0, 1, 2], "text")
    with pytest.raises(ArgumentError, match="the argument p"):
        run(mod, np.ones(3))


def test_kernels_in_place() -> None:
    """A kernel that doubles its only argument; the caller's array is left as it is."""
    data = n.decl_buffer((2,), "float32", "data")
    handle, i = n.Var("handle", "handle"), n.Var("i")
    store = n.BufferStore(data, data[i] * 2.0, (i,))  # type: ignore[arg-type]
    kernel = n.PrimFunc((handle,), n.For(i, n.IntImm("int32", 0), n.IntImm("int32", 2), n.ForKind.SERIAL, store),
                        None, {handle: data})  # fmt: skip
    x = r.Var("x", tensor(2))
    bb = BlockBuilder()
    gvar = bb.add_func(kernel, "twice")
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit(op.call_tir_inplace(gvar, [x], 0, tensor(2))))
    values = np.array([1, 2], "float32")
    assert run(bb.get(), values).tolist() == [2, 4]
    assert values.tolist() == [1, 2]
    for indices, message in (
        ([-1], "is -1 throughout"), ([3], "but there are 1 arguments"), ([0, 0], "has 2 entries for 1 outputs"),
    ):  # fmt: skip
        with pytest.raises(IRError, match=message):
            bb.normalize(op.call_tir_inplace(gvar, [x], indices, tensor(2)))


def test_functions_of_the_runtime() -> None:
    @register_func("test.relax.double", override=True)
    def double(data: Any) -> Any:
        return data * 2

    @register_func("test.relax.fill", override=True)
    def fill(data: Any, out: Any) -> None:
        out[...] = data + 1

    @register_func("test.relax.builtin", override=True)
    def builtin(machine: Any, data: Any) -> Any:
        return data if machine is None else None

    x = r.Var("x", tensor(2))

    def build(bb: BlockBuilder) -> Any:
        a = bb.emit(op.call_pure_packed("test.relax.double", x, sinfo_args=tensor(2)))
        b = bb.emit(op.call_dps_packed("test.relax.fill", [a], tensor(2)))
        c = bb.emit(r.Call(r.extern("test.relax.double"), (b,), sinfo_args=(tensor(2),)))
        return bb.emit(op.call_builtin_with_ctx("test.relax.builtin", [c], sinfo_args=tensor(2)))

    assert run(module(build, x, pure=False), np.array([1, 2], "float32")).tolist() == [6, 10]
    wrong = module(lambda bb: bb.emit(op.call_pure_packed("test.relax.double", x, sinfo_args=tensor(3))), x)
    with pytest.raises(ArgumentError, match=r"the value of gv is of shape \(2,\), not \(3,\)"):
        run(wrong, np.ones(2, "float32"))


def test_printing_and_asserting(capsys: pytest.CaptureFixture[str]) -> None:
    x, c = r.Var("x", tensor(2)), r.Var("c", r.TensorStructInfo((), "bool"))  # type: ignore[arg-type]

    def build(bb: BlockBuilder) -> Any:
        bb.emit(op.print(x, r.PrimValue(3), format="{} and {}"))  # type: ignore[arg-type]
        bb.emit(op.assert_op(c, x, format="x is {}"))
        return x

    mod = module(build, x, c, pure=False)
    run(mod, np.ones(2, "float32"), np.array(True))
    assert capsys.readouterr().out == "[1. 1.] and 3\n"
    with pytest.raises(AssertionFailed, match=r"x is \[1. 1.\] \(.*test_interp.py"):
        run(mod, np.ones(2, "float32"), np.array(False))
    with pytest.raises(IRError, match="condition must be a bool without dimensions"):
        module(lambda bb: bb.emit(op.assert_op(x)), x, pure=False)


def test_shapes_at_run_time() -> None:
    x = r.Var("x", r.TensorStructInfo(ndim=2))
    assert run(module(lambda bb: bb.emit(op.get_shape_of(x)), x), np.ones((2, 3), "float32")) == (2, 3)
    y = r.Var("y", tensor(K, 3))
    assert op.get_shape_of(y) is y.struct_info.shape  # type: ignore[attr-defined]
    with pytest.raises(IRError, match="it is no tensor"):
        op.get_shape_of(r.Var("s", r.ShapeStructInfo((K,))))


def test_recursion_and_closures() -> None:
    """Powers of two by a function that calls itself, and a local function that uses a value around it."""
    x, count = r.Var("x", tensor(2)), r.Var("count", r.TensorStructInfo((), "int32"))  # type: ignore[arg-type]
    bb = BlockBuilder()
    signature = r.Function.create_empty([x, count], tensor(2))
    me = bb.add_func(signature, "power")
    more = op.greater(count, r.const(0))
    again = r.Call(me, (op.add(x, x), op.subtract(count, r.const(1))))
    func = bb.normalize(r.Function([x, count], r.SeqExpr((), r.If(more, again, x)), tensor(2)))  # type: ignore[arg-type]
    bb.update_func(me, func)
    y = r.Var("y", tensor(2))
    with bb.function("main", [y]):
        inner = r.Var("inner", tensor(2))
        sum_ = bb.normalize(r.Function([inner], r.SeqExpr((), op.add(inner, y)), tensor(2)))
        add_y = bb.emit(sum_)
        bb.emit_func_output(bb.emit(add_y(bb.emit(r.Call(me, (y, r.const(3)))))))
    assert_well_formed(bb.get())
    assert run(bb.get(), np.array([1, 2], "float32")).tolist() == [9, 18]


def test_what_has_no_value() -> None:
    x = r.Var("x", tensor(2))
    loose = r.Function([x], r.SeqExpr((), r.Var("y", tensor(2))), tensor(2))
    with pytest.raises(LoweringError, match="the variable y has no value"):
        run(loose, np.ones(2, "float32"))
    absent = r.Function([x], r.SeqExpr((), r.Call(GlobalVar("g"), (x,))), tensor(2))
    with pytest.raises(LoweringError, match="no module that has it"):
        run(absent, np.ones(2, "float32"))
    called = r.Function([x], r.SeqExpr((r.BindingBlock((r.VarBinding(r.Var("v"), x),)),), r.Call(x, ())), tensor(2))
    with pytest.raises(LoweringError, match="which is no function"):
        run(called, np.ones(2, "float32"))


# ------------------------------------------------------------------------------ random graphs

_NUMPY: dict[str, Any] = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum,
}  # fmt: skip


@st.composite
def graphs(draw: st.DrawFn) -> list[tuple[Any, ...]]:
    """Steps of a program over a growing list of values, of which each step takes some."""
    steps: list[tuple[Any, ...]] = []
    for _ in range(draw(st.integers(1, 7))):
        kind = draw(st.sampled_from(["binary", "relu", "softmax", "permute", "matmul", "scalar", "te"]))
        steps.append((kind, draw(st.integers(0, 9)), draw(st.integers(0, 9)), draw(st.sampled_from(sorted(_NUMPY)))))
    return steps


@settings(max_examples=25, deadline=None)
@given(graphs(), st.integers(1, 3), st.integers(1, 3), st.booleans(), st.booleans())
def test_random_graphs_equal_numpy(
    steps: list[tuple[Any, ...]], rows: int, columns: int, symbolic: bool, nested: bool
) -> None:
    shape = (K, M) if symbolic else (rows, columns)
    x, y = r.Var("x", tensor(*shape)), r.Var("y", tensor(*shape))
    generator = np.random.default_rng(0)
    arrays = [generator.random((rows, columns), "float32") - 0.5 for _ in range(2)]
    exprs: list[Any] = [x, y]
    values: list[Any] = list(arrays)
    bb = BlockBuilder()
    with bb.function("main", [x, y]):
        with bb.dataflow():
            for kind, first, second, name in steps:
                a, b = first % len(exprs), second % len(exprs)
                u, v = values[a], values[b]
                match kind:
                    case "binary" if u.shape == v.shape:
                        made, value = getattr(op, name)(exprs[a], exprs[b]), _NUMPY[name](u, v)
                    case "scalar":
                        made, value = getattr(op, name)(exprs[a], 0.5), _NUMPY[name](u, np.float32(0.5))
                    case "matmul" if u.shape == v.shape:
                        made, value = op.matmul(exprs[a], op.permute_dims(exprs[b])), u @ v.T
                    case "permute":
                        made, value = op.permute_dims(exprs[a], (1, 0)), u.T
                    case "softmax":
                        power = np.exp(u - u.max(-1, keepdims=True))
                        made, value = op.nn.softmax(exprs[a]), power / power.sum(-1, keepdims=True)
                    case "te":
                        made, value = bb.call_te(topi.nn.relu, exprs[a]), np.maximum(u, 0)
                    case _:
                        made, value = op.nn.relu(exprs[a]), np.maximum(u, 0)
                exprs.append(made if nested else bb.emit(made))
                values.append(value)
            outs = [bb.emit_output(expr) for expr in exprs[2:]]
        bb.emit_func_output(outs)
    built = bb.get()
    assert_well_formed(built)
    results = run(built, *arrays)  # every value is checked against what was known of it, too
    for result, value in zip(results, values[2:]):
        np.testing.assert_allclose(result, value, rtol=2e-5, atol=1e-6)
