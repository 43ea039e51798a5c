"""Graphs without the values that nothing uses."""

from __future__ import annotations

from compiler.ir.base import Node, RelaxExpr
from compiler.ir.visit import walk
from compiler.relax.analysis.purity import contains_impure_call
from compiler.relax.nodes import Binding, BindingBlock, Function, If, MatchCast, SeqExpr, VarBinding
from compiler.relax.nodes.base import set_struct_info
from compiler.relax.nodes.symbols import symbols_in, symbols_set_by


def remove_all_unused(func: Function) -> Function:
    """`func` without bindings whose variable nothing uses and that have no side effect.

    A match_cast stays if it gives a value to a dimension that is used, or is outside of dataflow blocks.
    """
    if func.body is None:
        return func
    body = _Sweep().seq(func.body)
    if body is func.body:
        return func
    return Function(func.params, body, func.ret_struct_info, func.is_pure, func.attrs, func.span)


class _Sweep:
    """Goes through a sequence from its end, keeping what is needed further on."""

    def __init__(self) -> None:
        self._needed: set[Node] = set()  # variables of graphs and dimensions

    def need(self, expr: Node) -> None:
        """Note that all that `expr` mentions is needed."""
        for node in walk(expr):
            self._needed.add(node)
            info = getattr(node, "struct_info_", None)
            if info is not None and not node.CHILDREN:
                self._needed.update(symbols_in(info))

    def seq(self, seq: SeqExpr) -> SeqExpr:
        self.need(seq.body)
        blocks = [self.block(block) for block in reversed(seq.blocks)][::-1]
        if all(a is b for a, b in zip(blocks, seq.blocks)):
            return seq
        made = SeqExpr(tuple([block for block in blocks if block.bindings]), seq.body, seq.span)
        if seq.struct_info_ is not None:
            set_struct_info(made, seq.struct_info_)
        return made

    def block(self, block: BindingBlock) -> BindingBlock:
        dataflow = type(block) is not BindingBlock
        kept = [made for binding in reversed(block.bindings) if (made := self.binding(binding, dataflow)) is not None]
        kept.reverse()
        if len(kept) == len(block.bindings) and all(a is b for a, b in zip(kept, block.bindings)):
            return block
        return type(block)(tuple(kept), block.span)

    def binding(self, binding: Binding, dataflow: bool) -> Binding | None:
        """The binding, with branches of conditions swept; None where nothing needs it."""
        if not self._is_needed(binding, dataflow):
            return None
        value = self._value(binding.value)
        if binding.var.struct_info_ is not None:
            self._needed.update(symbols_in(binding.var.struct_info_))
        if isinstance(binding, MatchCast):
            self._needed.update(symbols_in(binding.struct_info))
        if value is binding.value:
            return binding
        if isinstance(binding, MatchCast):
            return MatchCast(binding.var, value, binding.struct_info, binding.span)
        return VarBinding(binding.var, value, binding.span)

    def _is_needed(self, binding: Binding, dataflow: bool) -> bool:
        if binding.var in self._needed:
            return True
        if isinstance(binding, MatchCast):
            return not dataflow or any(var in self._needed for var in symbols_set_by(binding.struct_info))
        return not isinstance(binding.value, Function) and contains_impure_call(binding.value)

    def _value(self, value: RelaxExpr) -> RelaxExpr:
        if isinstance(value, If):
            yes, no = self.seq(value.true_branch), self.seq(value.false_branch)
            self.need(value.cond)
            if yes is value.true_branch and no is value.false_branch:
                return value
            made = If(value.cond, yes, no, value.span)
            if value.struct_info_ is not None:
                set_struct_info(made, value.struct_info_)
            return made
        self.need(value)
        return value
