"""Normal form: every value has a name and a StructInfo."""

from __future__ import annotations

from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.relax.block_builder import BlockBuilder
from compiler.relax.nodes import Function
from compiler.relax.transform.passes import relax_pass


@relax_pass("Normalize")
def normalize(mod: IRModule, context: PassContext) -> IRModule:
    """Bind every nested value to a variable, and infer its StructInfo.

    gv = R.add(R.multiply(x, x), y)    →    lv = R.multiply(x, x)
                                            gv = R.add(lv, y)
    """
    builder = BlockBuilder(mod)
    for name, func in mod.items():
        if isinstance(func, Function):
            made = builder.normal_function(func)
            if made is not func:
                builder.update_func(name, made)
    return builder.get()
