"""Split kernels that pack weights into two: one that packs, and one that computes with packed weights."""

from __future__ import annotations

from typing import Any

from compiler.artifact import PREPACK, PREPACKED
from compiler.ir.base import GlobalVar, Op
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.lower.blocks.split_preproc import layout_free, split_layout_rewrite
from compiler.relax.expr_functor import PyExprMutator
from compiler.relax.nodes import Call, ShapeExpr, StructInfo, TensorStructInfo, Tuple, TupleGetItem
from compiler.relax.op.execution.calls import call_tir
from compiler.relax.transform.passes import relax_pass, rewritten
from compiler.tir import nodes as n


@relax_pass("SplitLayoutRewritePreproc")
def split_layout_rewrite_preproc(mod: IRModule, context: PassContext) -> IRModule:
    """Pack the layout-free arguments of scheduled kernels in separate kernels.

    gv = call_tir(cls.matmul, (x, w), …)    →    lv = call_tir(cls.matmul_weight_prepack, (w,), …)
                                                 gv = call_tir(cls.matmul_prepacked, (x, lv), …)

    The schedule must pack such an argument whole. `FoldConstant` then packs constants when the graph is built,
    `LiftTransformParams` parameters before the model runs.
    """
    parts = {
        gvar: (func, *split)
        for gvar, func in mod.items()
        if isinstance(func, n.PrimFunc) and (split := split_layout_rewrite(func)) is not None
    }
    return rewritten(mod, lambda own: _Splitter(own, parts)) if parts else mod


_Parts = dict[GlobalVar, tuple[n.PrimFunc, n.PrimFunc, n.PrimFunc]]
"""By its name a kernel, what packs its arguments, and what computes with them."""


class _Splitter(PyExprMutator):
    def __init__(self, mod: IRModule, parts: _Parts) -> None:
        super().__init__(mod)
        self._parts = parts
        self._added: dict[GlobalVar, tuple[GlobalVar, GlobalVar]] = {}

    def visit_call_(self, op: Call) -> Any:
        call: Any = super().visit_call_(op)
        if not isinstance(call.op, Op) or call.op.name != "relax.call_tir" or call.args[0] not in self._parts:
            return call
        gvar, args, *rest = call.args
        whole, before, after = self._parts[gvar]
        free = {param for param, buffer in whole.buffer_map.items() if buffer in layout_free(whole)}
        places = [at for at, param in enumerate(whole.params) if param in free and param not in after.params]
        made = before.params[len(places) :]
        infos: list[StructInfo] = [_info(before.buffer_map[param]) for param in made]
        packing, computing = self._functions(gvar)
        packed = self.builder_.emit(call_tir(packing, Tuple(tuple(args.fields[at] for at in places)), _only(infos)))
        fields = list(args.fields)
        for number, at in enumerate(places):
            fields[at] = packed if len(places) == 1 else self.builder_.emit(TupleGetItem(packed, number))
        return Call(call.op, (computing, Tuple(tuple(fields)), *rest), call.attrs, call.sinfo_args, call.span)

    def _functions(self, gvar: GlobalVar) -> tuple[GlobalVar, GlobalVar]:
        """The names of the function that packs a kernel's arguments, and of the one that computes with them."""
        if gvar not in self._added:
            parts = zip(self._parts[gvar][1:], (PREPACK, PREPACKED))
            first, second = (
                self.builder_.add_func(part.without_attr("global_symbol"), f"{gvar.name_hint}{suffix}")
                for part, suffix in parts
            )
            self._added[gvar] = first, second
        return self._added[gvar]


def _only(infos: list[StructInfo]) -> Any:
    return infos[0] if len(infos) == 1 else infos


def _info(buffer: n.Buffer) -> TensorStructInfo:
    return TensorStructInfo(ShapeExpr(buffer.shape), buffer.dtype)
