"""Dataflow blocks become plain ones."""

from __future__ import annotations

from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.relax.nodes import BindingBlock, DataflowVar, Function, Var
from compiler.relax.nodes.renew import Renewal
from compiler.relax.transform.passes import relax_pass


@relax_pass("ToNonDataflow", over="function")
def to_non_dataflow(func: Function, mod: IRModule, context: PassContext) -> Function:
    """Turn dataflow blocks into plain blocks, so that memory and side effects may be put into them.

    with R.dataflow():            lv = R.exp(x)
        lv = R.exp(x)        →    gv = R.negative(lv)
        gv = R.negative(lv)       return gv
        R.output(gv)
    return gv
    """
    return plain(func)


def plain(func: Function) -> Function:
    """`func` with plain blocks in the place of dataflow blocks."""
    return _Plain().function(func)


class _Plain(Renewal):
    def define(self, var: Var) -> Var:
        if not isinstance(var, DataflowVar):
            return super().define(var)
        known = var.struct_info_
        made = Var(var.vid, None if known is None else self.info(known), var.span)
        self.variables[var] = made
        return made

    def block(self, block: BindingBlock) -> BindingBlock:
        made = super().block(block)
        return made if type(made) is BindingBlock else BindingBlock(made.bindings, made.span)
