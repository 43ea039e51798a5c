"""Results of kernels become arrays that the graph makes."""

from __future__ import annotations

from typing import Any

from compiler.errors import IRError
from compiler.ir.base import Op, RelaxExpr
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.ir.vdevice import VDevice
from compiler.relax import nodes as r
from compiler.relax.expr_functor import PyExprMutator
from compiler.relax.op.execution.calls import call_builtin_with_ctx
from compiler.relax.op.execution.memory import builtin_alloc_tensor
from compiler.relax.transform.passes import relax_pass, rewritten
from compiler.te.where import at

_CALLS = ("relax.call_tir", "relax.call_tir_inplace", "relax.call_tir_with_grad", "relax.call_dps_packed")


@relax_pass("CallTIRRewrite")
def call_tir_rewrite(mod: IRModule, context: PassContext) -> IRModule:
    """Allocate the arrays that kernels write their results into, and call the kernels with them.

        lv = R.call_tir(cls.exp, (x,),      →    alloc = R.builtin.alloc_tensor(R.shape([4]), R.dtype("float32"), …)
                        R.Tensor((4,), …))       _ = cls.exp(x, alloc)
                                                 lv = alloc

    Expects no dataflow blocks. `tir_vars` become scalar arguments.
    """
    return rewritten(mod, _Explicit)


class _Explicit(PyExprMutator):
    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self._devices = list(mod.global_infos.get("vdevice", ()))

    def visit_call_(self, op: r.Call) -> Any:
        call: Any = super().visit_call_(op)
        if not isinstance(call.op, Op) or call.op.name not in _CALLS:
            return call
        args = self._arguments(call.args[1])
        (result,) = call.sinfo_args
        several = isinstance(result, r.TupleStructInfo)
        infos = result.fields if isinstance(result, r.TupleStructInfo) else (result,)
        indices = call.attrs.get("inplace_indices") or (-1,) * len(infos)
        outs = [args[index] if index >= 0 else self._made(info, call) for index, info in zip(indices, infos)]
        made = [out for index, out in zip(indices, outs) if index < 0]
        self._emit_call(call, [*args, *made])
        return r.Tuple(tuple(outs)) if several else outs[0]

    def _arguments(self, args: RelaxExpr) -> list[RelaxExpr]:
        if isinstance(args, r.Tuple):
            return list(args.fields)
        info = r.info_of(args)
        assert isinstance(info, r.TupleStructInfo)
        return [self.builder_.normalize_argument(r.TupleGetItem(args, index)) for index in range(len(info.fields))]

    def _made(self, info: Any, call: r.Call) -> r.Var:
        if not isinstance(info, r.TensorStructInfo) or info.shape is None or not info.dtype:
            raise IRError(f"a result is {info}: shape and element type must be known to make it{at(call.span)}")
        return self.builder_.emit(builtin_alloc_tensor(info.shape, info.dtype, self._number(info.vdevice)), "alloc")

    def _number(self, device: VDevice | None) -> int:
        """The number of a device on the machine: its place in the module's list, else its own number."""
        if device is None:
            return 0
        return self._devices.index(device) if device in self._devices else device.vdevice_id

    def _emit_call(self, call: r.Call, args: list[RelaxExpr]) -> None:
        scalars = call.args[2] if len(call.args) > 2 else None
        known = None if scalars is None else r.info_of(scalars)
        nothing = r.TupleStructInfo(())
        if scalars is not None and isinstance(known, r.ShapeStructInfo) and known.values is None:
            packed = call_builtin_with_ctx(
                r.ExternFunc("vm.builtin.call_tir_dyn"), [call.args[0], *args, scalars], sinfo_args=nothing
            )
            self.builder_.emit(packed, "_")
            return
        if isinstance(known, r.ShapeStructInfo):
            args += [r.PrimValue(value) for value in known.values or ()]
        infos = (nothing,) if isinstance(call.args[0], r.ExternFunc) else ()
        self.builder_.emit(r.Call(call.args[0], args, None, infos, call.span), "_")
