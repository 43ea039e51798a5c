"""Replace kernels by others that want their arrays in another layout."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compiler.arith.index_map import IndexMap
from compiler.errors import ArgumentError, IRError
from compiler.ir.base import GlobalVar, Op, RelaxExpr
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.relax import nodes as r
from compiler.relax.expr_functor import PyExprMutator
from compiler.relax.nodes.dims import int64, proven_equal
from compiler.relax.op.execution.calls import call_tir
from compiler.relax.op.movement.index import strided_slice
from compiler.relax.op.movement.layout_transform import index_map_of, layout_transform
from compiler.relax.transform.passes import relax_pass, rewritten
from compiler.te.where import at
from compiler.tir import nodes as n
from compiler.tir import ops

MapLike = IndexMap | Callable[..., Any] | None

OPERATOR_NAME = "operator_name"
"""The attribute of kernels that says which operator they compute."""


@relax_pass("AlterOpImpl")
def alter_op_impl(
    mod: IRModule, context: PassContext, *, op_impl_map: Mapping[str, n.PrimFunc],
    op_buffer_transforms: Mapping[str, Sequence[MapLike]], op_buffer_axis_separators: Mapping[str, Any] | None = None,
    op_buffer_input_axis_separators: Mapping[str, Any] | None = None,
) -> IRModule:  # fmt: skip
    """Replace calls of kernels by others that `op_impl_map` gives for their attribute "operator_name".

        lv = R.call_tir(cls.product, (x, w), …)    →    lv = R.layout_transform(x, lambda i, j: (i // 4, j, i % 4))
                                                        lv1 = R.call_tir(cls.product_blocked, (lv, w), …)
                                                        lv2 = R.layout_transform(lv1, lambda i, j, k: (i * 4 + k, j))

    `op_buffer_transforms` has, for each operator, a map of indices for each array that the kernel takes and gives;
    None leaves one as it is. Places without an element hold 0. Axis separators are for memory of two dimensions,
    which no target here has.
    """
    for name, given in (("op_buffer_axis_separators", op_buffer_axis_separators),
                        ("op_buffer_input_axis_separators", op_buffer_input_axis_separators)):  # fmt: skip
        if any(item for items in (given or {}).values() for item in items):
            raise ArgumentError(f"{name} must be empty: no target has memory of several dimensions")
    kernels = {name: _Kernel.of(name, func, op_buffer_transforms.get(name)) for name, func in op_impl_map.items()}
    return rewritten(mod, lambda own: _Alterer(own, kernels))


@dataclass(frozen=True, slots=True)
class _Kernel:
    """A kernel, and how each of its arrays lies."""

    func: n.PrimFunc
    maps: tuple[IndexMap | None, ...]

    @staticmethod
    def of(name: str, func: n.PrimFunc, given: Sequence[MapLike] | None) -> _Kernel:
        count = len(func.buffer_map)
        maps = tuple([None if item is None else index_map_of(item) for item in given or [None] * count])
        if len(maps) != count:
            what = f"op_buffer_transforms has {len(maps)} maps for {name}, whose kernel has {count} arrays"
            raise ArgumentError(what)
        return _Kernel(func, maps)


class _Alterer(PyExprMutator):
    def __init__(self, mod: IRModule, kernels: Mapping[str, _Kernel]) -> None:
        super().__init__(mod)
        self._module = mod
        self._kernels = kernels

    def visit_call_(self, op: r.Call) -> Any:
        call: Any = super().visit_call_(op)
        if not isinstance(call.op, Op) or call.op.name != "relax.call_tir":
            return call
        gvar, args = call.args[0], call.args[1]
        func = self._module.get(gvar) if isinstance(gvar, GlobalVar) else None
        kernel = self._kernels.get(str(func.attrs.get(OPERATOR_NAME))) if isinstance(func, n.PrimFunc) else None
        if kernel is None or not isinstance(args, r.Tuple):
            return call
        return self._altered(kernel, call, args)

    def _altered(self, kernel: _Kernel, call: r.Call, args: r.Tuple) -> Any:
        """The call of the other kernel, with its arrays moved there and back."""
        builder = self.builder_
        (info,) = call.sinfo_args
        outputs = info.fields if isinstance(info, r.TupleStructInfo) else (info,)
        count = len(args.fields)
        if len(kernel.maps) != count + len(outputs):
            had = count + len(outputs)
            raise IRError(f"a kernel of {had} arrays is replaced by one of {len(kernel.maps)}{at(call.span)}")
        inputs = [
            item if mapping is None else builder.emit(layout_transform(item, mapping, 0))
            for item, mapping in zip(args.fields, kernel.maps)
        ]
        lying = [_lying(item, mapping) for item, mapping in zip(outputs, kernel.maps[count:])]
        gvar = builder.add_func(kernel.func.without_attr("global_symbol"), f"{call.args[0].name_hint}_altered")  # type: ignore[attr-defined]
        several = isinstance(info, r.TupleStructInfo)
        made = builder.emit(call_tir(gvar, inputs, lying if several else lying[0], *call.args[2:]))
        if not several:
            return self._back(made, outputs[0], kernel.maps[count])
        fields = [builder.emit(r.TupleGetItem(made, place)) for place in range(len(outputs))]
        return r.Tuple(tuple([builder.normalize_argument(self._back(field, item, mapping))
                            for field, item, mapping in zip(fields, outputs, kernel.maps[count:])]))  # fmt: skip

    def _back(self, value: RelaxExpr, info: r.StructInfo, mapping: IndexMap | None) -> Any:
        """A result of the kernel as the graph had it."""
        if mapping is None:
            return value
        dims = _dims(info)
        back, _ = mapping.non_surjective_inverse(dims)
        whole = self.builder_.normalize(layout_transform(value, back))
        found = r.info_of(whole)
        assert isinstance(found, r.TensorStructInfo)
        assert found.dims is not None
        cut = [axis for axis, (a, b) in enumerate(zip(found.dims, dims)) if not proven_equal(a, b)]
        if not cut:
            return whole
        return strided_slice(self.builder_.emit(whole), cut, [int64(0)] * len(cut), [dims[axis] for axis in cut])


def _lying(info: r.StructInfo, mapping: IndexMap | None) -> r.TensorStructInfo:
    """Return what is known of an array that lies as `mapping` says."""
    assert isinstance(info, r.TensorStructInfo)
    if mapping is None:
        return info
    return r.TensorStructInfo(r.ShapeExpr(tuple(mapping.map_shape(_dims(info)))), info.dtype, info.vdevice)


def _dims(info: r.StructInfo) -> tuple[Any, ...]:
    dims = info.dims if isinstance(info, r.TensorStructInfo) else None
    if dims is None or any(ops.as_int(size) is None for size in dims):
        raise IRError(f"AlterOpImpl moves arrays of constant shape only, not {info}")
    return dims
