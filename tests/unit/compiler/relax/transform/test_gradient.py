"""Gradients of functions: what is added, numbers on the machine, kernels of one's own, marks, refusals."""

import re
from typing import Any

import numpy as np
import pytest

import tunefarm as tvm
from compiler.errors import ArgumentError, IRError
from compiler.ir.structural import assert_structural_equal
from compiler.ir.transform.passes import Sequential
from compiler.relax.analysis import problems
from compiler.relax.interp import run
from compiler.relax.transform.passes import find_pass, pass_of
from compiler.relax.transform.pipeline import FUSION, KERNELS
from tests.kit.compiler.pass_checks import as_module, same_values
from tunefarm import relax, te
from tunefarm.relax import BlockBuilder, TensorStructInfo, Tuple, TupleGetItem, Var, op, transform
from tunefarm.relax.training.utils import register_te_gradient
from tunefarm.script import ir as I
from tunefarm.script import relax as R

GRADIENT = transform.Gradient("main")


@I.ir_module
class Product:
    @R.function
    def main(x: R.Tensor((2, 3), "float32"), w: R.Tensor((3, 4), "float32"), u: R.Tensor((5,), "float32")):
        with R.dataflow():
            lv = R.matmul(x, w)
            lv1 = R.tanh(lv)
            gv = R.sum(R.add(lv1, lv))
            R.output(gv)
        return gv


@I.ir_module
class WithGradient:
    @R.function
    def main(x: R.Tensor((2, 3), "float32"), w: R.Tensor((3, 4), "float32"), u: R.Tensor((5,), "float32")):
        with R.dataflow():
            lv = R.matmul(x, w)
            lv1 = R.tanh(lv)
            gv = R.sum(R.add(lv1, lv))
            R.output(gv)
        return gv

    @R.function
    def main_adjoint(x: R.Tensor((2, 3), "float32"), w: R.Tensor((3, 4), "float32"), u: R.Tensor((5,), "float32")):
        with R.dataflow():
            lv = R.matmul(x, w)
            lv1 = R.tanh(lv)
            gv = R.sum(R.add(lv1, lv))
            one = R.ones((), "float32")
            slope = R.broadcast_to(R.expand_dims(one, [0, 1]), (2, 4))
            squared = R.square(lv1)
            through = R.multiply(slope, R.subtract(R.ones_like(squared), squared))
            total = R.add(slope, through)
            x_slope = R.matmul(total, R.permute_dims(w, [1, 0]))
            w_slope = R.matmul(R.permute_dims(x, [1, 0]), total)
            x_adjoint = x_slope
            w_adjoint = w_slope
            none = R.zeros((5,), "float32")
            u_adjoint = none
            R.output(gv, x_adjoint, w_adjoint, u_adjoint)
        return (gv, (x_adjoint, w_adjoint, u_adjoint))


def names(mod: Any, func: str = "main_adjoint") -> list[str]:
    """The operators that a function calls."""
    bindings = [binding for block in mod[func].body.blocks for binding in block.bindings]
    return [b.value.op.name for b in bindings if isinstance(b.value, relax.Call)]


def test_a_function_that_also_gives_gradients_is_added() -> None:
    made = GRADIENT(Product)
    assert problems(made) == []
    found = Sequential([transform.Normalize()])(made)
    wanted = Sequential([transform.Normalize()])(WithGradient)
    tidy = Sequential([transform.CanonicalizeBindings(), transform.TopologicalSort(), transform.DeadCodeElimination()])
    assert_structural_equal(found["main"], wanted["main"])
    assert_structural_equal(tidy(found)["main_adjoint"], tidy(wanted)["main_adjoint"])


def test_only_what_is_asked_for() -> None:
    x, w, _ = Product["main"].params
    (only,) = transform.Gradient("main", w)(Product)["main_adjoint"].ret_struct_info.fields[1].fields
    assert only == w.struct_info
    both = transform.Gradient("main", [w, x])(Product)["main_adjoint"].ret_struct_info.fields[1].fields
    assert both == (w.struct_info, x.struct_info)


def mixed(bb: BlockBuilder, x: Any, pair: Any, i: Any) -> Any:
    """Tuples, shared uses, a result of several, a cast, whole numbers."""
    first, second = bb.emit(TupleGetItem(pair, 0)), bb.emit(TupleGetItem(pair, 1))
    parts = bb.emit(op.split(x, 2, axis=1))
    left, right = bb.emit(TupleGetItem(parts, 0)), bb.emit(TupleGetItem(parts, 1))
    both = bb.emit(Tuple((bb.emit(op.multiply(left, first)), right)))
    joined = bb.match_cast(bb.emit(op.concat(both, axis=0)), TensorStructInfo((4, 2), "float32"))  # type: ignore[arg-type]
    rows = bb.emit(op.take(joined, i, axis=0))
    floored = bb.emit(op.subtract(rows, op.floor(rows)))
    return op.sum(op.multiply(op.add(floored, second), op.grad.no_grad(floored)))


def test_tuples_shared_uses_casts_and_whole_numbers() -> None:
    def tensor(*shape: int, dtype: str = "float32") -> TensorStructInfo:
        return TensorStructInfo(shape, dtype)  # type: ignore[arg-type]

    bb = BlockBuilder()
    pair = relax.TupleStructInfo([tensor(2, 2), tensor(2)])
    params = [Var("x", tensor(2, 4)), Var("pair", pair), Var("i", tensor(3, dtype="int64"))]
    with bb.function("main", params):
        with bb.dataflow():
            out = bb.emit_output(mixed(bb, *params))
            count = bb.emit_output(op.sum(params[2]))
        bb.emit_func_output((count, out))
    made = transform.Gradient("main", target_index=1)(bb.get())
    assert problems(made) == []
    rng = np.random.default_rng(1)
    x, a, b = (rng.standard_normal(shape).astype("float32") for shape in ((2, 4), (2, 2), (2,)))
    rows = [0, 3, 0]
    args = (x, (a, b), np.array(rows))
    joined = np.concatenate([x[:, :2] * a, x[:, 2:]])
    kept = (joined - np.floor(joined))[rows]
    into = np.zeros_like(joined)
    np.add.at(into, rows, kept)
    wanted = (
        (np.array(3), ((kept + b) * kept).sum()),
        (np.hstack([into[:2] * a, into[2:]]), (into[:2] * x[:, :2], kept.sum(0)), np.zeros(3, "int64")),
    )
    same_values(run(made, *args, func="main_adjoint"), wanted)
    machine = relax.VirtualMachine(relax.build(made, "llvm"), tvm.cpu())
    found = machine["main_adjoint"](x, tuple(map(tvm.nd.array, (a, b))), np.array(rows))
    same_values(as_arrays(found), wanted)


def as_arrays(value: Any) -> Any:
    return value.numpy() if isinstance(value, tvm.nd.NDArray) else tuple(map(as_arrays, value))


# ------------------------------------------------------------------------ kernels of one's own


@register_te_gradient("test.swapped_grad")
def swapped_grad(grads: Any, x: Any, i: Any, factor: float) -> Any:
    """The gradient of x * factor and x + i."""
    return [te.compute(x.shape, lambda *at: grads[0](*at) * factor + grads[1](*at)), None]


def test_kernels_with_registered_gradients() -> None:
    bb = BlockBuilder()
    x, i = Var("x", TensorStructInfo((2, 3), "float32")), Var("i", TensorStructInfo((2, 3), "int32"))  # type: ignore[arg-type]

    def both(x: Any, i: Any) -> Any:
        return [te.compute(x.shape, lambda *at: x(*at) * 3.0),
                te.compute(x.shape, lambda *at: x(*at) + i(*at).astype("float32"))]  # fmt: skip

    with bb.function("main", [x, i]):
        with bb.dataflow():
            pair = bb.emit_te_with_grad(both, x, i, te_grad_name="test.swapped_grad", te_grad_kwargs={"factor": 3.0})
            out = bb.emit_output(op.sum(op.multiply(TupleGetItem(pair, 0), TupleGetItem(pair, 1))))
        bb.emit_func_output(out)
    made = GRADIENT(bb.get())
    assert problems(made) == []
    assert "relax.call_tir_with_grad" not in names(made)
    a, b = np.arange(6, dtype="float32").reshape(2, 3), np.ones((2, 3), "int32")
    wanted = ((a * 3 * (a + b)).sum(), ((a + b) * 3 + a * 3, np.zeros((2, 3), "int32")))
    same_values(run(made, a, b, func="main_adjoint"), wanted)
    machine = relax.VirtualMachine(relax.build(made, "llvm"), tvm.cpu())
    same_values(as_arrays(machine["main_adjoint"](a, b)), wanted)
    same_values(as_arrays(machine["main"](a, b)), wanted[0])


def test_names_of_te_gradients_are_taken_once() -> None:
    assert register_te_gradient("test.swapped_grad", swapped_grad) is swapped_grad
    with pytest.raises(IRError, match=r"'test\.swapped_grad' is registered already"):
        register_te_gradient("test.swapped_grad", lambda grad, x: x)
    bb = BlockBuilder()
    x = Var("x", TensorStructInfo((2,), "float32"))  # type: ignore[arg-type]
    with bb.function("main", [x]):
        y = bb.emit_te_with_grad(lambda x: te.compute(x.shape, lambda i: x[i]), x, te_grad_name="test.swaped_grad")
        bb.emit_func_output(bb.emit(op.sum(y)))
    with pytest.raises(IRError, match=r"no te gradient 'test\.swaped_grad' is registered"):
        GRADIENT(bb.get())


# -------------------------------------------------------------------------------------- marks


def layers(marked: bool, size: int, depth: int = 12) -> Any:
    """A chain whose values are all needed for its gradient; with marks, only every fourth is kept."""
    bb = BlockBuilder()
    x, w = (Var(name, TensorStructInfo((size, size), "float32")) for name in "xw")  # type: ignore[arg-type]
    with bb.function("main", [x, w]):
        with bb.dataflow():
            y: Any = x
            for number in range(depth):
                if marked and number % 4 == 0:
                    y = bb.emit(op.grad.start_checkpoint(y))
                y = bb.emit(op.matmul(bb.emit(op.tanh(y)), w))
                if marked and number % 4 == 3:
                    y = bb.emit(op.grad.end_checkpoint(y))
            out = bb.emit_output(op.mean(y))
        bb.emit_func_output(out)
    return transform.Gradient("main", x)(bb.get())


def planned_bytes(mod: Any) -> int:
    """How much memory the values of the gradient take in the pipeline."""
    names = ("ToNonDataflow", "RemovePurityChecking", "CallTIRRewrite", "StaticPlanBlockMemory")
    passes = [*KERNELS, *FUSION, *[find_pass(name).function for name in names]]
    planned = Sequential([pass_of(function).make() for function in passes])(mod)
    text = planned["main_adjoint"].script()
    return sum(map(int, re.findall(r"alloc_storage\(R.shape\(\[(\d+)\]\)", text)))


def test_values_between_marks_are_computed_again_and_take_less_memory() -> None:
    plain, marked = layers(False, 4), layers(True, 4)
    assert problems(marked) == []
    assert names(marked).count("relax.tanh") == 2 * names(plain).count("relax.tanh") == 24
    assert names(marked).count("relax.grad.start_checkpoint") == 3
    assert "relax.grad.end_checkpoint" not in names(marked)
    x, w = np.random.default_rng(0).standard_normal((2, 4, 4)).astype("float32") / 2
    same_values(*[run(mod, x, w, func="main_adjoint") for mod in (plain, marked)])
    assert 0 < planned_bytes(layers(True, 64)) < 0.75 * planned_bytes(layers(False, 64))


# ----------------------------------------------------------------------------------- refusals


def refused(build: Any, match: str, **options: Any) -> None:
    bb = BlockBuilder()
    c, x = Var("c", TensorStructInfo((), "bool")), Var("x", TensorStructInfo((2, 3), "float32"))  # type: ignore[arg-type]
    with bb.function("main", [c, x], pure=False):
        bb.emit_func_output(build(bb, c, x))
    with pytest.raises((IRError, ArgumentError), match=match):
        transform.Gradient("main", **options)(bb.get())


def branches(bb: Any, c: Any, x: Any) -> Any:
    return relax.If(c, relax.SeqExpr((), op.sum(x)), relax.SeqExpr((), op.mean(x)))


def test_what_gradients_do_not_pass_through() -> None:
    refused(lambda bb, c, x: bb.emit(branches(bb, c, x)), "do not pass through a condition")
    refused(lambda bb, c, x: bb.emit(op.sum(op.memory.view(x, (6,)))), "view has no gradient: it reads memory")
    refused(lambda bb, c, x: bb.emit(op.argmax(x)), "gradients are taken of one floating point number")
    refused(lambda bb, c, x: bb.emit(op.exp(x)), "gradients are taken of one floating point number")
    refused(lambda bb, c, x: bb.emit(op.sum(x)), "target_index is 1, and the function returns one", target_index=1)
    refused(lambda bb, c, x: (bb.emit(op.sum(x)), c), "target_index is 2, and the function returns 2", target_index=2)
    with pytest.raises(ArgumentError, match="no graph function 'mian'"):
        transform.Gradient("mian")(Product)
    with pytest.raises(IRError, match="already has a function 'main_adjoint'"):
        GRADIENT(GRADIENT(Product))
    with pytest.raises(ArgumentError, match="the variable x is no parameter of main"):
        transform.Gradient("main", Var("x", TensorStructInfo((2, 3), "float32")))(Product)  # type: ignore[arg-type]


def test_calls_of_functions_are_refused_and_conditions_beside_the_way_are_not() -> None:
    @I.ir_module
    class Calls:
        @R.function(private=True)
        def inner(x: R.Tensor((3,), "float32")) -> R.Tensor((), "float32"):
            gv = R.sum(x)
            return gv

        @R.function
        def main(x: R.Tensor((3,), "float32")):
            gv = Calls.inner(x)
            return gv

    with pytest.raises(IRError, match="do not pass through the call of"):
        GRADIENT(Calls)
    made = GRADIENT(transform.InlinePrivateFunctions()(Calls))
    same_values(run(made, np.ones(3, "float32"), func="main_adjoint")[1], (np.ones(3),))

    @R.function
    def beside(c: R.Tensor((), "bool"), x: R.Tensor((3,), "float32"), y: R.Tensor((3,), "float32")):
        if c:
            z = R.exp(x)
        else:
            z = R.negative(x)
        gv = R.sum(R.multiply(z, y))
        return gv

    mod = as_module(beside)
    made = transform.Gradient("main", mod["main"].params[2])(mod)
    assert problems(made) == []
    x = np.array([1, 2, 3], "float32")
    same_values(run(made, np.array(False), x, x, func="main_adjoint"), (-(x * x).sum(), (-x,)))
    with pytest.raises(IRError, match="do not pass through a condition"):
        GRADIENT(mod)
