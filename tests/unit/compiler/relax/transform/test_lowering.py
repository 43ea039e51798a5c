"""Normal form, and the last steps before bytecode, before and after."""

from typing import Any

import pytest

from compiler.errors import IRError
from compiler.ir.module import IRModule
from compiler.ir.structural import assert_structural_equal
from compiler.ir.transform.passes import Sequential
from compiler.relax.block_builder import BlockBuilder
from tests.kit.compiler.pass_checks import as_module, becomes, computes, stays
from tunefarm import relax, tir
from tunefarm.relax import (
    BindingBlock,
    DataflowBlock,
    DataflowVar,
    Function,
    If,
    ObjectStructInfo,
    SeqExpr,
    TensorStructInfo,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
    op,
    transform,
)
from tunefarm.script import ir as I
from tunefarm.script import relax as R
from tunefarm.script import tir as T

F32 = "float32"


def raw(params: list[Var], blocks: list[BindingBlock], body: Any) -> IRModule:
    """A module of a function that was not brought into normal form."""
    return IRModule({"main": Function(params, SeqExpr(tuple(blocks), body), ObjectStructInfo())})


# ------------------------------------------------------------------------------------- Normalize


def test_nested_values_get_names() -> None:
    x, y = Var("x", TensorStructInfo((4,), F32)), Var("y", TensorStructInfo((4,), F32))
    gv = Var("gv")
    nested = raw([x, y], [BindingBlock((VarBinding(gv, op.add(op.multiply(x, x), op.exp(y))),))], op.negative(gv))

    bb = BlockBuilder()
    with bb.function("main", [x, y], private=True):
        lv, lv1 = bb.emit(op.multiply(x, x)), bb.emit(op.exp(y))
        out = bb.emit(op.negative(bb.emit(op.add(lv, lv1))))
        bb.emit_func_output(out)
    made = transform.Normalize()(nested)
    assert_structural_equal(made["main"].body, bb.get()["main"].body)
    stays(transform.Normalize(), bb.get())


def test_names_are_given_where_values_are_computed() -> None:
    c, x = Var("c", TensorStructInfo((), "bool")), Var("x", TensorStructInfo((4,), F32))
    inner, gv = DataflowVar("inner"), Var("gv")
    chosen = If(c, SeqExpr((), op.exp(op.negative(x))), SeqExpr((), op.tanh(x)))
    blocks = [
        DataflowBlock((VarBinding(inner, op.exp(op.exp(x))), VarBinding(gv, TupleGetItem(Tuple((inner, x)), 0)))),
        BindingBlock((VarBinding(Var("picked"), chosen),)),
    ]
    made = transform.Normalize()(raw([c, x], blocks, gv))

    @R.function(private=True)
    def after(c: R.Tensor((), "bool"), x: R.Tensor((4,), "float32")):
        with R.dataflow():
            lv = R.exp(x)
            inner = R.exp(lv)
            gv = inner
            R.output(gv)
        if c:
            lv1 = R.negative(x)
            lv2 = R.exp(lv1)
            picked = lv2
        else:
            lv3 = R.tanh(x)
            picked = lv3
        return gv

    def shape(seq: Any) -> list[Any]:
        found: list[Any] = []
        for block in seq.blocks:
            for binding in block.bindings:
                value = binding.value
                if isinstance(value, If):
                    found.append([shape(value.true_branch), shape(value.false_branch)])
                else:
                    found.append((type(block).__name__, getattr(getattr(value, "op", None), "name", "")))
        return found

    assert [item for item in shape(made["main"].body) if item != ("", "")] == [
        ("DataflowBlock", "relax.exp"),
        ("DataflowBlock", "relax.exp"),
        ("DataflowBlock", ""),
        [[("BindingBlock", "relax.negative"), ("BindingBlock", "relax.exp")], [("BindingBlock", "relax.tanh")]],
    ]
    assert transform.Normalize()(as_module(after))["main"] is not None
    stays(transform.Normalize(), as_module(after))


def test_what_does_not_fit_together_is_an_error() -> None:
    x, y = Var("x", TensorStructInfo((4, 3), F32)), Var("y", TensorStructInfo((4, 3), F32))
    with pytest.raises(IRError, match="dimensions that are summed over differ"):
        transform.Normalize()(raw([x, y], [], op.matmul(x, op.exp(y))))


# -------------------------------------------------------------------------------- VMBuiltinLower


def test_operators_of_the_machine_become_calls_of_its_functions() -> None:
    @R.function(pure=False)
    def before(x: R.Tensor((4,), "float32"), c: R.Tensor((), "bool")) -> R.Tensor((2, 2), "float32"):
        storage = R.memory.alloc_storage(R.shape([64]), 0, "global", "uint8")
        a = R.memory.alloc_tensor(storage, 0, R.shape([4]), "float32")
        R.memory.kill_storage(storage)
        s = R.shape_of(x)
        R.print(x, format="{}")
        R.assert_op(c, x, format="no {}")
        y = R.reshape(a, R.shape([2, 2]))
        R.memory.kill_tensor(a)
        return y

    @R.function(pure=False)
    def after(x: R.Tensor((4,), "float32"), c: R.Tensor((), "bool")) -> R.Tensor((2, 2), "float32"):
        storage = R.call_builtin_with_ctx(
            "vm.builtin.alloc_storage",
            (R.shape([64]), R.prim_value(0), R.dtype("uint8"), R.str("global")),
            sinfo_args=R.Object,
        )
        a = R.call_packed(
            "vm.builtin.alloc_tensor",
            storage,
            R.prim_value(0),
            R.shape([4]),
            R.dtype("float32"),
            sinfo_args=R.Tensor((4,), "float32"),
        )
        R.vm.kill_object(storage)
        s = R.call_packed("vm.builtin.shape_of", x, sinfo_args=R.Shape([4]))
        R.call_packed("vm.builtin.print", R.str("{}"), x, sinfo_args=R.Tuple())
        R.call_packed("vm.builtin.assert_op", c, R.str("no {}"), x, sinfo_args=R.Tuple())
        y = R.call_packed("vm.builtin.reshape", a, R.shape([2, 2]), sinfo_args=R.Tensor((2, 2), "float32"))
        R.vm.kill_object(a)
        return y

    becomes(transform.VMBuiltinLower(), before, after)
    stays(transform.VMBuiltinLower(), after)


# ---------------------------------------------------------------------------------- VMShapeLower


@R.function(pure=False)
def sized(x: R.Tensor(("n", 4), "float32"), y: R.Tensor(("n",), "float32")) -> R.Shape(["n * 2", 3]):
    n = T.int64()
    s = R.shape([n * 2, 3])
    return s


@R.function(pure=False)
def on_heap(x: R.Tensor(("n", 4), "float32"), y: R.Tensor(("n",), "float32")) -> R.Shape(["n * 2", 3]):
    n = T.int64()
    heap = R.call_builtin_with_ctx("vm.builtin.alloc_shape_heap", (R.prim_value(2),), sinfo_args=R.Object)
    R.call_packed(
        "vm.builtin.match_shape",
        x,
        heap,
        R.prim_value(2),
        R.prim_value(1),  # store
        R.prim_value(0),
        R.prim_value(0),  # equal to a number
        R.prim_value(4),
        R.str("main: argument 'x'"),
        sinfo_args=R.Tuple(),
    )
    R.call_packed(
        "vm.builtin.match_shape",
        y,
        heap,
        R.prim_value(1),
        R.prim_value(3),  # equal to what is on the heap
        R.prim_value(0),
        R.str("main: argument 'y'"),
        sinfo_args=R.Tuple(),
    )
    R.call_packed("vm.builtin.compute_extent", heap, R.prim_value(1), R.str("s0*2"), sinfo_args=R.Tuple())
    shape = R.call_packed(
        "vm.builtin.make_shape",
        heap,
        R.prim_value(2),
        R.prim_value(1),  # from the heap
        R.prim_value(1),
        R.prim_value(0),  # a number
        R.prim_value(3),
        sinfo_args=R.Shape([n * 2, 3]),
    )
    s = shape
    return s


def test_dimensions_are_kept_on_a_heap() -> None:
    becomes(transform.VMShapeLower(), sized, on_heap)


def test_a_cast_checks_and_names_dimensions() -> None:
    @R.function(pure=False)
    def before(x: R.Tensor("float32", ndim=1)) -> R.Tensor("float32", ndim=1):
        n = T.int64()
        y = R.match_cast(x, R.Tensor((n,), "float32"))
        return y

    made = transform.VMShapeLower()(as_module(before))
    text = made["main"].script()
    assert "vm.builtin.check_tensor_info" in text
    assert "vm.builtin.match_shape" in text
    assert "match_cast" not in text


def test_comparisons_of_dimensions_become_arithmetic() -> None:
    n = tir.Var("n", "int64")
    eight = tir.IntImm("int64", 8)
    for condition in (n <= 8, n < 8, n >= 8, n > 8, tir.EQ(n, eight), tir.NE(n, eight)):
        bb = BlockBuilder()
        x = Var("x", TensorStructInfo((n,), F32))
        with bb.function("main", [x], pure=False):
            bb.emit(op.assert_op(relax.PrimValue(condition)))
            bb.emit_func_output(x)
        text = transform.VMShapeLower()(bb.get())["main"].script()
        extent = text.partition('"vm.builtin.compute_extent", heap, R.prim_value(1), R.str("')[2].partition('"')[0]
        for value in (3, 8, 20):
            names = {"s0": value, "min": min, "max": max}
            holds = eval(repr(condition).replace("T.int64(8)", "8"), {"n": value})
            assert bool(eval(extent, names)) == bool(holds), (extent, value)


# ---------------------------------------------------------------------------- AttachGlobalSymbol


@I.ir_module
class Unnamed:
    @T.prim_func(private=True)
    def kernel(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("B"):
                v = T.axis.spatial(4, i)
                B[v] = A[v] + 1.0

    @R.function(private=True)
    def inner(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        y = R.exp(x)
        return y

    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        y = Unnamed.inner(x)
        z = R.call_tir(Unnamed.kernel, (y,), out_sinfo=R.Tensor((4,), "float32"))
        return z


@I.ir_module
class Named:
    @T.prim_func
    def kernel(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("B"):
                v = T.axis.spatial(4, i)
                B[v] = A[v] + 1.0

    @R.function
    def inner(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        y = R.exp(x)
        return y

    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        y = Named.inner(x)
        z = R.call_tir(Named.kernel, (y,), out_sinfo=R.Tensor((4,), "float32"))
        return z


def test_functions_get_the_names_that_the_module_has_them_under() -> None:
    computes(transform.AttachGlobalSymbol(), Unnamed, (4,), after=Named)
    stays(transform.AttachGlobalSymbol(), Named)
    renamed = IRModule({"other": Named["inner"]})
    made = Sequential([transform.AttachGlobalSymbol()])(renamed)
    assert made["other"].attrs["global_symbol"] == "other"
