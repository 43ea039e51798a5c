"""The normal form of graphs: every value has a name, and what is known of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from compiler.errors import IRError
from compiler.ir.base import GlobalVar, Op, RelaxExpr
from compiler.relax import nodes as r
from compiler.relax.nodes.expr import tuple_info
from compiler.relax.nodes.renew import Renewal
from compiler.relax.op.core.registry import operator_of
from compiler.relax.struct_info.derive import call_result
from compiler.relax.struct_info.erase import erase
from compiler.relax.struct_info.lca import common
from compiler.te.where import at

if TYPE_CHECKING:
    from compiler.relax.block_builder import BlockBuilder

LEAVES = (
    r.Var, r.DataflowVar, r.Constant, r.ShapeExpr, r.PrimValue, r.StringImm, r.DataTypeImm, r.ExternFunc, GlobalVar, Op,
)  # fmt: skip
"""What may stand as an argument by itself."""
_LEAVES = frozenset(LEAVES)


def is_leaf(expr: RelaxExpr) -> bool:
    """Whether `expr` may stand as an argument by itself."""
    return type(expr) in _LEAVES or isinstance(expr, LEAVES)


def is_leaf_or_tuple(expr: RelaxExpr) -> bool:
    """Whether `expr` may stand as an argument: leaves, and tuples of what may."""
    return is_leaf(expr) or isinstance(expr, r.Tuple)


class Normalizer:
    """Brings expressions into normal form; nested ones become bindings of the builder's current block."""

    def __init__(self, builder: BlockBuilder) -> None:
        self._builder = builder

    def normal(self, expr: Any) -> Any:
        """`expr` with arguments that are leaves, and with StructInfo.
        Raises IRError where they do not fit."""
        rule = _RULES.get(type(expr))
        if rule is not None:
            return rule(self, expr)
        if is_leaf(expr):
            return expr
        raise IRError(f"{expr!r} ({type(expr).__name__}) is no graph expression")

    def argument(self, expr: Any) -> Any:
        """`expr` as an argument: itself, or the variable that now stands for it."""
        if type(expr) in _LEAVES:
            return expr
        known = self._builder.emitted(expr)
        if known is not None:
            return known
        self._settle(expr)
        known = self._builder.emitted(expr)
        return self._one_argument(expr) if known is None else known

    def value(self, expr: Any) -> Any:
        """`expr` as the value of a binding; what a sequence binds is bound in the current block."""
        normal = self.normal(expr)
        return self._spliced(normal) if isinstance(normal, r.SeqExpr) and self._builder.in_block else normal

    def _one_argument(self, expr: Any) -> Any:
        normal = self.value(expr)
        if is_leaf_or_tuple(normal):
            return normal
        return self._builder.emit_argument(expr, normal)

    def _settle(self, expr: Any) -> None:
        """Emit what is nested in `expr`, innermost first, so that any depth works."""
        stack: list[tuple[Any, bool]] = [(expr, False)]
        while stack:
            current, ready = stack.pop()
            if type(current) in _LEAVES or self._builder.emitted(current) is not None:
                continue
            if not ready:
                stack.append((current, True))
                stack += [(part, False) for part in reversed(_parts(current))]
            elif current is not expr and not isinstance(current, r.Tuple):
                self._one_argument(current)

    # ------------------------------------------------------------------------------- rules

    def _call(self, call: r.Call) -> RelaxExpr:
        op = call.op if type(call.op) in _LEAVES else self.argument(call.op)
        args = call.args
        for position, arg in enumerate(args):
            if type(arg) not in _LEAVES:
                made = [*args[:position], *[self.argument(item) for item in args[position:]]]
                args = args if all(a is b for a, b in zip(made, args)) else tuple(made)
                break
        if op is not call.op or args is not call.args:
            call = r.Call(op, args, call.attrs, call.sinfo_args, call.span)
        elif call.struct_info_ is not None:
            return call
        if isinstance(op, Op):
            operator = operator_of(op)
            analyzer = self._builder.analyzer
            call = operator.normalized(call, analyzer, self._builder)
            if not any(type(arg) not in _LEAVES and not isinstance(arg, r.Tuple) for arg in call.args):
                r.set_struct_info(call, operator.struct_info(call, analyzer, self._builder))
                return call
            return self._call(call)
        r.set_struct_info(call, self._function_result(call))
        return call

    def _function_result(self, call: r.Call) -> r.StructInfo:
        op = call.op
        info = self._builder.info_of_function(op) if isinstance(op, GlobalVar) else r.info_of(op)
        match info:
            case r.FuncStructInfo():
                return call_result(call, info, self._builder)
            case r.ObjectStructInfo():
                return r.ObjectStructInfo()
            case None:
                raise IRError(f"nothing is known of {r.describe(op)}, which is called{at(call.span)}")
        raise IRError(f"{r.describe(op)} is called, but it is no function: {info}{at(call.span)}")

    def _tuple(self, value: r.Tuple) -> RelaxExpr:
        fields = tuple([self.argument(item) for item in value.fields])
        if all(a is b for a, b in zip(fields, value.fields)):
            if value.struct_info_ is None:
                self._know(value, tuple_info(fields))
            return value
        return r.Tuple(fields, value.span)

    def _know(self, expr: Any, info: r.StructInfo | None) -> None:
        if info is None:
            raise IRError(f"nothing is known of {r.describe(expr)}")
        r.set_struct_info(expr, info)

    def _item(self, item: r.TupleGetItem) -> RelaxExpr:
        value = self.argument(item.tuple_value)
        if isinstance(value, r.Tuple):
            if item.index >= len(value.fields):
                raise IRError(f"field {item.index} of a tuple of {len(value.fields)} fields{at(item.span)}")
            return value.fields[item.index]
        if value is not item.tuple_value:
            item = r.TupleGetItem(value, item.index, item.span)
        if item.struct_info_ is None:
            match r.info_of(value):
                case r.TupleStructInfo() as info:
                    if item.index >= len(info.fields):
                        count = len(info.fields)
                        what = f"field {item.index} of {r.describe(value)}"
                        raise IRError(f"{what}, a tuple of {count} fields{at(item.span)}")
                    r.set_struct_info(item, info.fields[item.index])
                case r.ObjectStructInfo():
                    r.set_struct_info(item, r.ObjectStructInfo())
                case other:
                    text = f"field {item.index} of {r.describe(value)}, which is no tuple: {other}"
                    raise IRError(text + at(item.span))
        return item

    def _if(self, expr: r.If) -> RelaxExpr:
        cond = self.argument(expr.cond)
        info = r.info_of(cond)
        fits = isinstance(info, r.PrimStructInfo | r.TensorStructInfo) and info.dtype in ("bool", "")
        fits = fits or isinstance(info, r.ObjectStructInfo)
        if not fits or (isinstance(info, r.TensorStructInfo) and info.ndim > 0):
            raise IRError(f"the condition of If must be a bool without dimensions, got {info}{at(expr.span)}")
        yes, no = self.scoped(expr.true_branch), self.scoped(expr.false_branch)
        if cond is not expr.cond or yes is not expr.true_branch or no is not expr.false_branch:
            expr = r.If(cond, yes, no, expr.span)
        if expr.struct_info_ is None:
            r.set_struct_info(expr, common(yes.struct_info, no.struct_info, self._builder.analyzer))
        return expr

    def scoped(self, seq: r.SeqExpr) -> r.SeqExpr:
        """A sequence in a scope of its own. Its result is described in terms of the outer dimensions."""
        known = self._builder.symbols
        self._builder.begin_scope(None)
        try:
            found = self.sequence(seq)
        finally:
            self._builder.end_scope()
        if found.struct_info_ is None:
            info = r.info_of(found.body)
            assert info is not None
            r.set_struct_info(found, erase(info, lambda var: var if var in known else None, lambda var: var))
        return found

    def sequence(self, seq: r.SeqExpr) -> r.SeqExpr:
        """A sequence with its blocks in normal form.
        What its body needs is bound in a block at the end."""
        blocks: list[r.BindingBlock] = []
        same = True
        for block in seq.blocks:
            made = self.block(block)
            same = same and made is block
            if made.bindings:
                blocks.append(made)
            else:
                same = False
        self._builder._begin_binding_block()
        body = self.argument(seq.body)
        rest = self._builder._end_block()
        if rest.bindings:
            blocks.append(rest)
        if same and not rest.bindings and body is seq.body:
            return seq
        return r.SeqExpr(merged(blocks), body, seq.span)

    def block(self, block: r.BindingBlock) -> r.BindingBlock:
        """A block with its bindings in normal form."""
        builder = self._builder
        if isinstance(block, r.DataflowBlock):
            builder._begin_dataflow_block()
        else:
            builder._begin_binding_block()
        for binding in block.bindings:
            self.binding(binding)
        made = builder._end_block()
        same = len(made.bindings) == len(block.bindings)
        return block if same and all(a is b for a, b in zip(made.bindings, block.bindings)) else made

    def binding(self, binding: r.Binding) -> None:
        """Emit a binding in normal form into the current block."""
        value = self.value(binding.value)
        var, info = binding.var, r.info_of(value)
        assert info is not None
        if isinstance(binding, r.MatchCast):
            if var.struct_info_ is None:
                r.set_struct_info(var, binding.struct_info)
            if value is not binding.value:
                binding = r.MatchCast(var, value, binding.struct_info, binding.span)
        else:
            if var.struct_info_ is None:
                r.set_struct_info(var, info)
            if value is not binding.value:
                binding = r.VarBinding(var, value, binding.span)
        self._builder.emit_normalized(binding)

    def _spliced(self, seq: r.SeqExpr) -> RelaxExpr:
        """The body of a normal sequence, whose bindings become those of the current block."""
        plain = seq if self._builder.current_block_is_dataflow() else _Visible().expr(seq)
        for block in plain.blocks:
            for binding in block.bindings:
                self._builder.emit_normalized(binding)
        return plain.body

    def _function(self, func: r.Function) -> RelaxExpr:
        return self._builder.normal_function(func)


class _Visible(Renewal):
    """Copies in which no variable belongs to a dataflow block."""

    def define(self, var: r.Var) -> r.Var:
        if not isinstance(var, r.DataflowVar):
            return super().define(var)
        made = r.Var(var.vid, var.struct_info_, var.span)
        self.variables[var] = made
        return made


def merged(blocks: list[r.BindingBlock]) -> tuple[r.BindingBlock, ...]:
    """The blocks, neighbours of one kind put together."""
    found: list[r.BindingBlock] = []
    for block in blocks:
        if found and type(found[-1]) is type(block) is r.BindingBlock:
            found[-1] = r.BindingBlock((*found[-1].bindings, *block.bindings), found[-1].span)
        else:
            found.append(block)
    return tuple(found)


def _parts(expr: Any) -> tuple[Any, ...]:
    """The expressions directly in an argument that are evaluated before it."""
    match expr:
        case r.Call():
            return (expr.op, *expr.args)
        case r.Tuple():
            return expr.fields
        case r.TupleGetItem():
            return (expr.tuple_value,)
        case r.If():
            return (expr.cond,)
    return ()


_RULES: dict[type, Callable[[Normalizer, Any], RelaxExpr]] = {
    r.Call: Normalizer._call,
    r.Tuple: Normalizer._tuple,
    r.TupleGetItem: Normalizer._item,
    r.If: Normalizer._if,
    r.SeqExpr: Normalizer.scoped,
    r.Function: Normalizer._function,
}
