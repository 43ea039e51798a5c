"""Arrays whose memory nobody planned get memory of their own."""

from __future__ import annotations

from typing import Any

from compiler.ir.base import Op
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.relax.expr_functor import PyExprMutator
from compiler.relax.nodes import Call
from compiler.relax.op.execution.memory import memory_alloc_storage, memory_alloc_tensor
from compiler.relax.transform.passes import relax_pass, rewritten


@relax_pass("LowerAllocTensor")
def lower_alloc_tensor(mod: IRModule, context: PassContext) -> IRModule:
    """Allocate memory for each array that has none yet.

    alloc = R.builtin.alloc_tensor(shape, dtype, 0)    →    storage = R.memory.alloc_storage(shape, 0, …, dtype)
                                                            alloc = R.memory.alloc_tensor(storage, 0, shape, dtype)
    """
    return rewritten(mod, _Lower)


class _Lower(PyExprMutator):
    def visit_call_(self, op: Call) -> Any:
        call: Any = super().visit_call_(op)
        if not isinstance(call.op, Op) or call.op.name != "relax.builtin.alloc_tensor":
            return call
        shape, dtype, device, scope = call.args
        storage = self.builder_.emit(memory_alloc_storage(shape, device, scope, dtype), "storage")
        return memory_alloc_tensor(storage, 0, shape, dtype)
