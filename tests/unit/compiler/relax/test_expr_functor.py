"""Visitors and mutators: every method is called, defaults go on, what is rewritten is in normal form."""

from typing import Any

import numpy as np
import pytest

from compiler.errors import IRError
from compiler.ir.base import GlobalVar, Op
from compiler.relax import nodes as r
from compiler.relax import op
from compiler.relax.analysis import assert_well_formed
from compiler.relax.block_builder import BlockBuilder
from compiler.relax.expr_functor import ExprFunctor, PyExprMutator, PyExprVisitor, mutator, visitor
from compiler.relax.interp import run
from tests.kit.compiler.struct_info import tensor


def everything() -> r.Function:
    """A function that has every kind of node."""
    x, c = r.Var("x", tensor(2, 2)), r.Var("c", r.TensorStructInfo((), "bool"))  # type: ignore[arg-type]
    bb = BlockBuilder()
    with bb.function("main", [x, c], pure=False):
        with bb.dataflow():
            a = bb.emit(op.reshape(op.add(x, r.const(np.ones((2, 2), "float32"))), (4,)))
            cast = bb.match_cast(a, tensor(4))
            out = bb.emit_output(cast)
        pair = bb.emit(r.Tuple((out, out)))  # type: ignore[arg-type]
        first = bb.emit(r.TupleGetItem(pair, 0))
        bb.emit(r.Call(r.extern("f"), (r.PrimValue(1), r.StringImm("s"), r.DataTypeImm("int8"))))  # type: ignore[arg-type]
        chosen = bb.emit(r.If(c, op.nn.relu(first), first))  # type: ignore[arg-type]
        inner = r.Var("inner", tensor(2))
        local = bb.emit(r.Function([inner], inner))
        bb.emit(local(r.const(np.ones(2, "float32"))))
        bb.emit_func_output(chosen)
    func = bb.get()["main"]
    assert isinstance(func, r.Function)
    return func


METHODS = [name for name in vars(PyExprVisitor) if name.endswith("_") and name.startswith("visit_")]


@pytest.mark.parametrize("name", METHODS)
def test_visitors_reach_every_kind_of_node(name: str) -> None:
    seen: list[object] = []

    def watch(self: Any, node: Any) -> None:
        seen.append(node)
        getattr(PyExprVisitor, name)(self, node)

    cls: Any = visitor(type("Watcher", (PyExprVisitor,), {name: watch}))
    cls().visit_expr(everything())
    if name == "visit_global_var_":
        cls().visit_expr(GlobalVar("f"))
    assert seen


def test_visitors_go_in_order() -> None:
    @visitor
    class Names(PyExprVisitor):
        def __init__(self) -> None:
            self.order: list[str] = []

        def visit_op_(self, op: Op) -> None:
            self.order.append(op.name)

        def visit_var_def_(self, var: r.Var) -> None:
            self.order.append(f"def {var.name_hint}")

        def visit_var_(self, op: r.Var) -> None:
            self.order.append(op.name_hint)

    names = Names()
    names.visit_expr(everything())
    assert names.order[:8] == ["def x", "def c", "relax.add", "x", "def lv", "relax.reshape", "lv", "def lv1"]
    with pytest.raises(IRError, match="is no graph expression"):
        names.visit_expr(3)  # type: ignore[arg-type]


def test_decorators_refuse_other_classes() -> None:
    with pytest.raises(TypeError, match="@visitor decorates subclasses of PyExprVisitor"):
        visitor(int)
    with pytest.raises(TypeError, match="@mutator decorates subclasses of PyExprMutator"):
        mutator(PyExprVisitor)
    assert mutator(PyExprMutator) is PyExprMutator


def test_functors_have_no_defaults() -> None:
    class Count(ExprFunctor):
        def visit_var_(self, op: r.Var) -> int:
            return 1

        def visit_call_(self, op: r.Call) -> int:
            return sum(map(self.visit_expr, op.args))

    x = r.Var("x", tensor(2))
    assert Count().visit_expr(op.add(x, op.add(x, x))) == 3
    with pytest.raises(NotImplementedError, match="Count has no visit_tuple_"):
        Count().visit_expr(r.Tuple((x,)))


def test_mutators_without_overrides_change_nothing() -> None:
    func = everything()
    assert mutator(type("Same", (PyExprMutator,), {}))().visit_expr(func) is func


@mutator
class _ReluToDouble(PyExprMutator):
    """relu(x) becomes (x + x) * 0.5, in two bindings."""

    def visit_call_(self, op: r.Call) -> Any:
        call = self.visit_expr_post_order(op)
        if isinstance(call, r.Call) and call.op is Op.get("relax.nn.relu"):
            (data,) = call.args
            return (data + data) * 0.5
        return call


def test_mutators_put_results_into_normal_form() -> None:
    func = _ReluToDouble().visit_expr(everything())
    assert_well_formed(func)
    branches = [b.value for block in func.body.blocks for b in block.bindings if isinstance(b.value, r.If)]
    assert [len(block.bindings) for block in branches[0].true_branch.blocks] == [2]


def test_variables_take_up_new_struct_info() -> None:
    @mutator
    class Halves(PyExprMutator):
        def visit_call_(self, op: r.Call) -> Any:
            call = self.visit_expr_post_order(op)
            if call.op is Op.get("relax.add"):
                return call.args[0].astype("float16")
            return call

    x = r.Var("x", tensor(2))
    bb = BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            a = bb.emit(op.add(x, x))
            b = bb.emit_output(op.nn.relu(a))
        bb.emit_func_output(b)
    old = bb.get()["main"]
    new = Halves().visit_expr(old)  # type: ignore[arg-type]
    assert_well_formed(new)
    assert new.ret_struct_info == tensor(2, dtype="float16")
    (first, second) = new.body.blocks[0].bindings
    assert first.var.vid is a.vid
    assert first.var is not a
    assert second.var.struct_info == tensor(2, dtype="float16")


def test_mutators_emit_and_remap() -> None:
    @mutator
    class Drop(PyExprMutator):
        def visit_var_binding_(self, binding: r.VarBinding) -> None:
            value = binding.value
            if isinstance(value, r.Call) and value.op is Op.get("relax.nn.relu"):
                kept = self.builder_.emit(op.multiply(self.visit_expr(value.args[0]), self.visit_expr(value.args[0])))
                assert self.lookup_binding(kept) is not None
                self.set_var_remap(binding.var.vid, kept)
                assert self.get_var_remap(binding.var.vid) is kept
                return
            super().visit_var_binding_(binding)

        def visit_match_cast_(self, binding: r.MatchCast) -> None:
            super().visit_match_cast_(binding)

    x = r.Var("x", tensor(3))
    bb = BlockBuilder()
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit(op.add(bb.emit(op.nn.relu(x)), x)))
    changed = Drop().visit_expr(bb.get()["main"])  # type: ignore[arg-type]
    assert_well_formed(changed)
    assert run(changed, np.array([-1, 2, 3], "float32")).tolist() == [0, 6, 12]
    with pytest.raises(KeyError):
        Drop().get_var_remap(x.vid)


def test_parameters_can_change() -> None:
    @mutator
    class Wider(PyExprMutator):
        def visit_var_def_(self, var: r.Var) -> r.Var:
            return self.with_struct_info(var, tensor(8)) if var.name_hint == "x" else var

    x = r.Var("x", tensor(4))
    bb = BlockBuilder()
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit(op.add(x, x)))
    new = Wider().visit_expr(bb.get()["main"])  # type: ignore[arg-type]
    assert new.params[0].struct_info == tensor(8)
    assert new.ret_struct_info == tensor(8)
    assert_well_formed(new)


def test_with_struct_info() -> None:
    m, x = PyExprMutator(), r.Var("x", tensor(4))
    assert m.with_struct_info(x, tensor(4)) is x
    assert m.with_struct_info(x, tensor(5)).vid is x.vid
    fresh = r.Var("y")
    assert m.with_struct_info(fresh, tensor(4)) is fresh
    assert fresh.struct_info == tensor(4)
    scoped = m.visit_with_new_scope(r.SeqExpr((r.BindingBlock(()),), x))
    assert isinstance(scoped, r.SeqExpr)
    assert m.visit_expr(r.ShapeExpr((1,))).struct_info.ndim == 1  # type: ignore[arg-type]
    assert m.visit_expr(r.Tuple((x,))).struct_info == r.TupleStructInfo((tensor(4),))
