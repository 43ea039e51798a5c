"""The document of TVM's relax namespace, sentence by sentence: visitors and mutators of graphs."""

from __future__ import annotations

from typing import Any

import pytest

import tunefarm as tvm
from tunefarm import relax
from tunefarm.script import ir as I
from tunefarm.script import relax as R

NODES = [
    "constant_", "tuple_", "var_", "dataflow_var_", "shape_expr_", "extern_func_", "global_var_", "function_", "call_",
    "seq_expr_", "if_", "op_", "tuple_getitem_", "prim_value_", "string_imm_", "data_type_imm_",
]  # fmt: skip
BINDINGS = [
    "var_binding_", "match_cast_", "binding_block_", "dataflow_block_", "var_def_", "dataflow_var_def_",
]  # fmt: skip


@I.ir_module
class Every:
    @R.function
    def other(x: R.Tensor((2, 2), "float32")) -> R.Tensor((2, 2), "float32"):
        return x

    @R.function(pure=False)
    def main(x: R.Tensor((2, 2), "float32"), c: R.Tensor((), "bool")):
        cls = Every
        with R.dataflow():
            a = R.reshape(x, R.shape([4]))
            b = R.match_cast(a, R.Tensor((4,), "float32"))
            d = R.add(b, R.const(1, "float32"))
            R.output(d)
        pair = (d, d)
        first = pair[0]
        e = cls.other(x)
        R.call_packed("seed.any", e, R.prim_value(1), R.str("s"), R.dtype("int8"), sinfo_args=R.Object)
        if c:
            g = R.exp(first)
            h = g
        else:
            h = R.negative(first)
        return h


@pytest.mark.parametrize("node", NODES + BINDINGS)
def test_a_visitor_reaches_each_kind_of_node(node: str) -> None:
    seen: list[object] = []

    def visit(self: Any, what: Any) -> None:
        seen.append(what)
        getattr(super(type(self), self), f"visit_{node}", lambda _: None)(what)

    kind = relax.expr_functor.visitor(type("Looks", (relax.PyExprVisitor,), {f"visit_{node}": visit}))
    kind().visit_expr(Every["main"])
    assert seen


@pytest.mark.parametrize("node", NODES)
def test_a_mutator_reaches_each_kind_of_node(node: str) -> None:
    seen: list[object] = []

    def visit(self: Any, what: Any) -> Any:
        seen.append(what)
        return what

    kind = relax.expr_functor.mutator(type("Looks", (relax.PyExprMutator,), {f"visit_{node}": visit}))
    kind(Every).visit_expr(Every["main"])
    assert seen


def test_a_mutator_that_changes_nothing_gives_the_same() -> None:
    @relax.expr_functor.mutator
    class Nothing(relax.PyExprMutator):
        pass

    func = Every["main"]
    tvm.ir.assert_structural_equal(Nothing(Every).visit_expr(func), func)


def test_a_visitor_overrides_by_name() -> None:
    @relax.expr_functor.visitor
    class Operators(relax.PyExprVisitor):
        def __init__(self) -> None:
            super().__init__()
            self.names: list[str] = []
            self.bound: list[str] = []

        def visit_call_(self, op: Any) -> None:
            if isinstance(op.op, tvm.ir.Op):
                self.names.append(op.op.name)
            for arg in op.args:
                self.visit_expr(arg)

        def visit_var_def(self, var: Any) -> None:
            self.bound.append(var.name_hint)

    found = Operators()
    found.visit_expr(Every["main"])
    assert {"relax.reshape", "relax.add", "relax.exp", "relax.negative"} <= set(found.names)
    assert {"a", "b", "d", "pair", "first"} <= set(found.bound)


def test_a_mutator_rewrites_and_puts_into_normal_form() -> None:
    @relax.expr_functor.mutator
    class Doubles(relax.PyExprMutator):
        def visit_call_(self, op: Any) -> Any:
            call = self.visit_expr_post_order(op)
            if isinstance(call.op, tvm.ir.Op) and call.op.name == "relax.add":
                return relax.op.multiply(call, relax.const(2.0, "float32"))  # a call in a call
            return call

    changed = Doubles(Every).visit_expr(Every["main"])
    assert "multiply" in changed.script()
    relax.analysis.well_formed(tvm.IRModule({"main": changed}))
    nested = [
        binding
        for block in changed.body.blocks
        for binding in block.bindings
        if isinstance(binding.value, relax.Call) and any(isinstance(arg, relax.Call) for arg in binding.value.args)
    ]
    assert not nested


def test_a_mutator_works_on_bindings_and_scopes() -> None:
    seen: list[str] = []

    @relax.expr_functor.mutator
    class Scopes(relax.PyExprMutator):
        def visit_var_binding_(self, binding: Any) -> None:
            seen.append(binding.var.name_hint)
            self.builder_.emit_normalized(relax.VarBinding(binding.var, self.visit_expr(binding.value)))

        def visit_if_(self, op: Any) -> Any:
            branch = self.visit_with_new_scope(op.true_branch)
            assert isinstance(branch, relax.SeqExpr)
            return relax.If(op.cond, branch, self.visit_with_new_scope(op.false_branch))

    changed = Scopes(Every).visit_expr(Every["main"])
    assert {"a", "pair", "first"} <= set(seen)
    assert "if " in changed.script()


def test_a_variable_takes_other_struct_info() -> None:
    mutator = relax.PyExprMutator()
    x = relax.Var("x", relax.TensorStructInfo((2,), "float32"))
    assert mutator.with_struct_info(x, relax.TensorStructInfo((2,), "float32")).same_as(x)
    other = mutator.with_struct_info(x, relax.TensorStructInfo((3,), "float32"))
    assert not other.same_as(x)
    assert other.struct_info == relax.TensorStructInfo((3,), "float32")
