"""Bindings without side effects become dataflow blocks."""

from __future__ import annotations

from typing import Any

from compiler.ir.base import RelaxExpr
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.ir.visit import walk
from compiler.relax import nodes as r
from compiler.relax.analysis.purity import contains_impure_call
from compiler.relax.nodes.renew import Renewal
from compiler.relax.transform.passes import relax_pass


@relax_pass("ConvertToDataflow", over="function")
def convert_to_dataflow(func: r.Function, mod: IRModule, context: PassContext, *, min_size: int = 2) -> r.Function:
    """Put `min_size` bindings or more, one after another and free of side effects, into a dataflow block.

    lv = R.exp(x)                  with R.dataflow():
    gv = R.negative(lv)      →         lv = R.exp(x)
    R.print(gv)                        gv = R.negative(lv)
    return gv                          R.output(gv)
                                   R.print(gv)
                                   return gv

    Branches of conditions stay as they are: scripts have no dataflow blocks there.
    """
    return func if func.body is None else _Grouping(max(min_size, 1), func.body).function(func)


class _Grouping(Renewal):
    def __init__(self, min_size: int, body: r.SeqExpr) -> None:
        super().__init__()
        self._min_size = min_size
        self._body = body

    def expr(self, expr: RelaxExpr) -> Any:
        return self._sequence(self._body) if expr is self._body else super().expr(expr)

    def _sequence(self, seq: r.SeqExpr) -> r.SeqExpr:
        blocks: list[r.BindingBlock] = []
        for block in seq.blocks:
            if isinstance(block, r.DataflowBlock):
                blocks.append(block)
                continue
            run: list[r.Binding] = []
            for binding in block.bindings:
                if not _is_dataflow(binding):
                    self._end(run, blocks)
                    _add(blocks, binding)
                    run = []
                else:
                    run.append(binding)
            self._end(run, blocks)
        uses: dict[object, set[int]] = {}
        for number, block in enumerate(blocks):
            for binding in block.bindings:
                for node in walk(binding.value):
                    uses.setdefault(node, set()).add(number)
        for node in walk(seq.body):
            uses.setdefault(node, set()).add(-1)
        known = {block for block in seq.blocks if isinstance(block, r.DataflowBlock)}
        for number, block in enumerate(blocks):
            if isinstance(block, r.DataflowBlock) and block not in known:
                for binding in block.bindings:
                    if uses.get(binding.var, set()) <= {number} and not isinstance(binding.var, r.DataflowVar):
                        var = binding.var
                        self.variables[var] = r.DataflowVar(var.vid, var.struct_info_, var.span)
        made = r.SeqExpr(tuple([self.block(block) for block in blocks]), super().expr(seq.body), seq.span)
        if len(made.blocks) == len(seq.blocks) and all(a is b for a, b in zip(made.blocks, seq.blocks)):
            return seq
        if seq.struct_info_ is not None:
            r.set_struct_info(made, seq.struct_info_)
        return made

    def define(self, var: r.Var) -> r.Var:
        inner = self.variables.get(var)
        return inner if isinstance(inner, r.DataflowVar) else super().define(var)

    def _end(self, run: list[r.Binding], blocks: list[r.BindingBlock]) -> None:
        if len(run) >= self._min_size:
            blocks.append(r.DataflowBlock(tuple(run)))
            return
        for binding in run:
            _add(blocks, binding)


def _add(blocks: list[r.BindingBlock], binding: r.Binding) -> None:
    """Add a binding to the plain block at the end."""
    if blocks and type(blocks[-1]) is r.BindingBlock:
        blocks[-1] = r.BindingBlock((*blocks[-1].bindings, binding), blocks[-1].span)
    else:
        blocks.append(r.BindingBlock((binding,)))


def _is_dataflow(binding: r.Binding) -> bool:
    return not isinstance(binding.value, r.If | r.SeqExpr | r.Function) and not contains_impure_call(binding.value)
