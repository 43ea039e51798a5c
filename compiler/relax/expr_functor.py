"""Visit and rewrite graphs by the kind of node.

A subclass overrides the methods of the kinds it is about.

    @visitor
    class CountCalls(PyExprVisitor):
        def visit_call_(self, op): ...

    @mutator
    class ReluToGelu(PyExprMutator):
        def visit_call_(self, op):
            op = self.visit_expr_post_order(op)
            ...

A method of a subclass calls `super().visit_call_(op)` to do what the base class does: visit the node's children.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from compiler.errors import IRError
from compiler.ir.base import GlobalVar, Op, RelaxExpr
from compiler.ir.module import IRModule
from compiler.relax import nodes as r
from compiler.relax.block_builder import BlockBuilder
from compiler.relax.nodes.binding import as_seq
from compiler.relax.normalize import merged

ClassT = TypeVar("ClassT", bound=type)

_EXPRS: dict[type, str] = {
    r.Constant: "visit_constant_",
    r.Tuple: "visit_tuple_",
    r.DataflowVar: "visit_dataflow_var_",
    r.Var: "visit_var_",
    r.ShapeExpr: "visit_shape_expr_",
    r.ExternFunc: "visit_extern_func_",
    GlobalVar: "visit_global_var_",
    r.Function: "visit_function_",
    r.Call: "visit_call_",
    r.SeqExpr: "visit_seq_expr_",
    r.If: "visit_if_",
    Op: "visit_op_",
    r.TupleGetItem: "visit_tuple_getitem_",
    r.PrimValue: "visit_prim_value_",
    r.StringImm: "visit_string_imm_",
    r.DataTypeImm: "visit_data_type_imm_",
}
_OTHERS: dict[type, str] = {
    r.VarBinding: "visit_var_binding_",
    r.MatchCast: "visit_match_cast_",
    r.DataflowBlock: "visit_dataflow_block_",
    r.BindingBlock: "visit_binding_block_",
}


def _method(expr: Any) -> str:
    name = _EXPRS.get(type(expr))
    if name is None:
        name = next((_EXPRS[base] for base in type(expr).__mro__ if base in _EXPRS), None)
    if name is None:
        raise IRError(f"{expr!r} ({type(expr).__name__}) is no graph expression")
    return name


def visitor(visitor_cls: ClassT) -> ClassT:
    """Decorate a subclass of `PyExprVisitor`. Raises TypeError for any other class."""
    return _checked(visitor_cls, PyExprVisitor, "visitor")


def mutator(mutator_cls: ClassT) -> ClassT:
    """Decorate a subclass of `PyExprMutator`. Raises TypeError for any other class."""
    return _checked(mutator_cls, PyExprMutator, "mutator")


def _checked(cls: ClassT, base: type, what: str) -> ClassT:
    if not (isinstance(cls, type) and issubclass(cls, base)):
        raise TypeError(f"@{what} decorates subclasses of {base.__name__}, not {cls!r}")
    return cls


class ExprFunctor:
    """Base of functions over expressions that differ by the kind of node.
    Each kind has a method to override."""

    def visit_expr(self, expr: RelaxExpr) -> Any:
        """The value for `expr`: what the method of its kind gives."""
        return getattr(self, _method(expr))(expr)

    def _missing(self, op: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no {_method(op)}")

    visit_constant_ = visit_tuple_ = visit_dataflow_var_ = visit_var_ = visit_shape_expr_ = _missing
    visit_extern_func_ = visit_global_var_ = visit_function_ = visit_call_ = visit_seq_expr_ = _missing
    visit_if_ = visit_op_ = visit_tuple_getitem_ = visit_prim_value_ = visit_string_imm_ = _missing
    visit_data_type_imm_ = _missing


class PyExprVisitor:
    """Walks a graph. Without overrides it visits every node, in the order of evaluation."""

    # ---------------------------------------------------------------------------- dispatch

    def visit_expr(self, expr: RelaxExpr) -> None:
        """Visit any expression: the method of its kind."""
        getattr(self, _method(expr))(expr)

    def visit_binding(self, binding: r.Binding) -> None:
        """Visit any binding."""
        getattr(self, _OTHERS[type(binding)])(binding)

    def visit_binding_block(self, block: r.BindingBlock) -> None:
        """Visit any block."""
        getattr(self, _OTHERS[type(block)])(block)

    def visit_var_def(self, var: r.Var) -> None:
        """Visit a variable where it is defined."""
        if isinstance(var, r.DataflowVar):
            self.visit_dataflow_var_def_(var)
        else:
            self.visit_var_def_(var)

    # -------------------------------------------------------------------------- expressions

    def visit_constant_(self, op: r.Constant) -> None:
        """Visit a constant."""

    def visit_tuple_(self, op: r.Tuple) -> None:
        """Visit a tuple, then its fields."""
        for item in op.fields:
            self.visit_expr(item)

    def visit_var_(self, op: r.Var) -> None:
        """Visit a variable where it is used."""

    def visit_dataflow_var_(self, op: r.DataflowVar) -> None:
        """Visit a dataflow variable where it is used; as any variable, unless overridden."""
        self.visit_var_(op)

    def visit_shape_expr_(self, op: r.ShapeExpr) -> None:
        """Visit a shape."""

    def visit_extern_func_(self, op: r.ExternFunc) -> None:
        """Visit a function of the runtime."""

    def visit_global_var_(self, op: GlobalVar) -> None:
        """Visit the name of a function."""

    def visit_function_(self, op: r.Function) -> None:
        """Visit a function: its parameters, then its body."""
        for param in op.params:
            self.visit_var_def(param)
        if op.body is not None:
            self.visit_expr(op.body)

    def visit_call_(self, op: r.Call) -> None:
        """Visit a call: what it calls, then the arguments."""
        self.visit_expr(op.op)
        for arg in op.args:
            self.visit_expr(arg)

    def visit_seq_expr_(self, op: r.SeqExpr) -> None:
        """Visit a sequence: its blocks, then its body."""
        for block in op.blocks:
            self.visit_binding_block(block)
        self.visit_expr(op.body)

    def visit_if_(self, op: r.If) -> None:
        """Visit a condition, then both branches."""
        self.visit_expr(op.cond)
        self.visit_expr(op.true_branch)
        self.visit_expr(op.false_branch)

    def visit_op_(self, op: Op) -> None:
        """Visit an operator."""

    def visit_tuple_getitem_(self, op: r.TupleGetItem) -> None:
        """Visit a field of a tuple."""
        self.visit_expr(op.tuple_value)

    def visit_prim_value_(self, op: r.PrimValue) -> None:
        """Visit a scalar."""

    def visit_string_imm_(self, op: r.StringImm) -> None:
        """Visit text."""

    def visit_data_type_imm_(self, op: r.DataTypeImm) -> None:
        """Visit the name of an element type."""

    # ------------------------------------------------------------------------------ bindings

    def visit_var_binding_(self, binding: r.VarBinding) -> None:
        """Visit a binding: its value, then its variable."""
        self.visit_expr(binding.value)
        self.visit_var_def(binding.var)

    def visit_match_cast_(self, binding: r.MatchCast) -> None:
        """Visit a checked binding: its value, then its variable."""
        self.visit_expr(binding.value)
        self.visit_var_def(binding.var)

    def visit_binding_block_(self, block: r.BindingBlock) -> None:
        """Visit the bindings of a block."""
        for binding in block.bindings:
            self.visit_binding(binding)

    def visit_dataflow_block_(self, block: r.DataflowBlock) -> None:
        """Visit the bindings of a dataflow block; as any block, unless overridden."""
        for binding in block.bindings:
            self.visit_binding(binding)

    def visit_var_def_(self, var: r.Var) -> None:
        """Visit a variable where it is defined."""

    def visit_dataflow_var_def_(self, var: r.DataflowVar) -> None:
        """Visit a dataflow variable where it is defined; as any variable, unless overridden."""
        self.visit_var_def_(var)


class PyExprMutator:
    """Rewrites a graph. Without overrides it returns the same graph; what changes is in normal form.

    `builder_` emits what a method wants bound before the current binding.
    """

    def __init__(self, mod: IRModule | None = None) -> None:
        """A rewriter whose builder adds to `mod`."""
        self.builder_ = BlockBuilder(mod)
        self._remap: dict[r.Id, r.Var] = {}

    # ---------------------------------------------------------------------------- dispatch

    def visit_expr(self, expr: RelaxExpr) -> Any:
        """Rewrite any expression: the method of its kind. The result is in normal form."""
        found = getattr(self, _method(expr))(expr)
        return found if found is expr and r.info_of(found) is not None else self.builder_.normalize(found)

    def visit_binding(self, binding: r.Binding) -> None:
        """Rewrite any binding: it is emitted."""
        getattr(self, _OTHERS[type(binding)])(binding)

    def visit_binding_block(self, block: r.BindingBlock) -> r.BindingBlock:
        """Rewrite any block."""
        found: r.BindingBlock = getattr(self, _OTHERS[type(block)])(block)
        return found

    def visit_var_def(self, var: r.Var) -> r.Var:
        """Rewrite a variable where it is defined."""
        return self.visit_dataflow_var_def_(var) if isinstance(var, r.DataflowVar) else self.visit_var_def_(var)

    # -------------------------------------------------------------------------- expressions

    def visit_constant_(self, op: r.Constant) -> Any:
        """Rewrite a constant."""
        return op

    def visit_tuple_(self, op: r.Tuple) -> Any:
        """Rewrite the fields of a tuple."""
        fields = self._all(op.fields)
        return op if fields is op.fields else r.Tuple(fields, op.span)

    def visit_var_(self, op: r.Var) -> Any:
        """Rewrite a variable where it is used: what stands for it now."""
        return self._remap.get(op.vid, op)

    def visit_dataflow_var_(self, op: r.DataflowVar) -> Any:
        """Rewrite a dataflow variable where it is used; as any variable, unless overridden."""
        return self.visit_var_(op)

    def visit_shape_expr_(self, op: r.ShapeExpr) -> Any:
        """Rewrite a shape."""
        return op

    def visit_extern_func_(self, op: r.ExternFunc) -> Any:
        """Rewrite a function of the runtime."""
        return op

    def visit_global_var_(self, op: GlobalVar) -> Any:
        """Rewrite the name of a function."""
        return op

    def visit_function_(self, op: r.Function) -> Any:
        """Rewrite a function: its parameters, then its body. What it returns follows from the body."""
        if op.body is None:
            return op
        params = tuple([self.visit_var_def(param) for param in op.params])
        for old, new in zip(op.params, params):
            if new is not old:
                self._remap[old.vid] = new
        self.builder_.begin_scope(params)
        try:
            body = self.visit_expr(op.body)
        finally:
            self.builder_.end_scope()
        if body is op.body and all(a is b for a, b in zip(params, op.params)):
            return op
        return r.Function(params, body, None, op.is_pure, op.attrs, op.span)

    def visit_call_(self, op: r.Call) -> Any:
        """Rewrite what is called, and the arguments."""
        callee, args = self.visit_expr(op.op), self._all(op.args)
        if callee is op.op and args is op.args:
            return op
        return r.Call(callee, args, op.attrs, op.sinfo_args, op.span)

    def visit_seq_expr_(self, op: r.SeqExpr) -> Any:
        """Rewrite the blocks of a sequence, then its body; what the body emits is bound at the end."""
        blocks = [self.visit_binding_block(block) for block in op.blocks]
        same = all(a is b for a, b in zip(blocks, op.blocks))
        self.builder_._begin_binding_block()
        body = self.builder_.normalize_argument(self.visit_expr(op.body))
        rest = self.builder_._end_block()
        if same and body is op.body and not rest.bindings:
            return op
        return r.SeqExpr(merged([block for block in (*blocks, rest) if block.bindings]), body, op.span)

    def visit_if_(self, op: r.If) -> Any:
        """Rewrite a condition, then both branches."""
        cond = self.visit_expr(op.cond)
        yes, no = self.visit_with_new_scope(op.true_branch), self.visit_with_new_scope(op.false_branch)
        if cond is op.cond and yes is op.true_branch and no is op.false_branch:
            return op
        return r.If(cond, yes, no, op.span)

    def visit_op_(self, op: Op) -> Any:
        """Rewrite an operator."""
        return op

    def visit_tuple_getitem_(self, op: r.TupleGetItem) -> Any:
        """Rewrite the tuple that a field is taken of."""
        value = self.visit_expr(op.tuple_value)
        return op if value is op.tuple_value else r.TupleGetItem(value, op.index, op.span)

    def visit_prim_value_(self, op: r.PrimValue) -> Any:
        """Rewrite a scalar."""
        return op

    def visit_string_imm_(self, op: r.StringImm) -> Any:
        """Rewrite text."""
        return op

    def visit_data_type_imm_(self, op: r.DataTypeImm) -> Any:
        """Rewrite the name of an element type."""
        return op

    def _all(self, exprs: tuple[RelaxExpr, ...]) -> tuple[RelaxExpr, ...]:
        made = tuple([self.visit_expr(item) for item in exprs])
        return exprs if all(a is b for a, b in zip(exprs, made)) else made

    # ------------------------------------------------------------------------------ bindings

    def visit_var_binding_(self, binding: r.VarBinding) -> None:
        """Rewrite the value of a binding, and emit it. The variable takes up what is known of the new value."""
        value = self.builder_.normalize_value(self.visit_expr(binding.value))
        var = self.visit_var_def(binding.var)
        if value is binding.value and var is binding.var and var.struct_info_ is not None:
            self.builder_.emit_normalized(binding)
            return
        info = r.info_of(value)
        assert info is not None
        kept = self.with_struct_info(var, info)
        if kept is not binding.var:
            self._remap[binding.var.vid] = kept
        self.builder_.emit_normalized(r.VarBinding(kept, value, binding.span))

    def visit_match_cast_(self, binding: r.MatchCast) -> None:
        """Rewrite the value of a checked binding, and emit it."""
        value = self.builder_.normalize_argument(self.visit_expr(binding.value))
        var = self.visit_var_def(binding.var)
        if value is binding.value and var is binding.var:
            self.builder_.emit_normalized(binding)
            return
        kept = self.with_struct_info(var, binding.struct_info)
        if kept is not binding.var:
            self._remap[binding.var.vid] = kept
        self.builder_.emit_normalized(r.MatchCast(kept, value, binding.struct_info, binding.span))

    def visit_binding_block_(self, block: r.BindingBlock) -> r.BindingBlock:
        """Rewrite the bindings of a block."""
        self.builder_._begin_binding_block()
        return self._rest_of_block(block)

    def visit_dataflow_block_(self, block: r.DataflowBlock) -> r.BindingBlock:
        """Rewrite the bindings of a dataflow block."""
        self.builder_._begin_dataflow_block()
        return self._rest_of_block(block)

    def _rest_of_block(self, block: r.BindingBlock) -> r.BindingBlock:
        for binding in block.bindings:
            self.visit_binding(binding)
        made = self.builder_._end_block()
        same = len(made.bindings) == len(block.bindings)
        return block if same and all(a is b for a, b in zip(made.bindings, block.bindings)) else made

    def visit_var_def_(self, var: r.Var) -> r.Var:
        """Rewrite a variable where it is defined."""
        return var

    def visit_dataflow_var_def_(self, var: r.DataflowVar) -> r.Var:
        """Rewrite a dataflow variable where it is defined; as any variable, unless overridden."""
        return self.visit_var_def_(var)

    # --------------------------------------------------------------------------------- tools

    def visit_expr_post_order(self, expr: RelaxExpr) -> Any:
        """Rewrite the children of `expr`, and bring it into normal form.
        No override is called for `expr` itself."""
        base: Callable[[PyExprMutator, Any], Any] = getattr(PyExprMutator, _method(expr))
        return self.builder_.normalize(base(self, expr))

    def visit_with_new_scope(self, expr: RelaxExpr) -> r.SeqExpr:
        """Rewrite `expr` in a scope of its own, as for bodies of functions and branches."""
        self.builder_.begin_scope(None)
        try:
            found = self.visit_expr(expr)
        finally:
            self.builder_.end_scope()
        return as_seq(found)

    def with_struct_info(self, var: r.Var, struct_info: r.StructInfo) -> r.Var:
        """Return `var` if it has `struct_info` already, else a new variable under the same `Id` that has it."""
        if var.struct_info_ is None:
            r.set_struct_info(var, struct_info)
            return var
        if var.struct_info_ == struct_info:
            return var
        return (r.DataflowVar if isinstance(var, r.DataflowVar) else r.Var)(var.vid, struct_info, var.span)

    def set_var_remap(self, vid: r.Id, var: r.Var) -> None:
        """Have uses of the variable `vid` become uses of `var`."""
        self._remap[vid] = var

    def get_var_remap(self, vid: r.Id) -> r.Var:
        """The variable that stands for `vid` now. Raises KeyError when nothing was set."""
        return self._remap[vid]

    def lookup_binding(self, var: r.Var) -> RelaxExpr | None:
        """The value that the rewritten graph binds `var` to; None for parameters."""
        return self.builder_.lookup_binding(var)


