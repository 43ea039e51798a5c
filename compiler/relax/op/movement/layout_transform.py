"""Laying the elements of a tensor out anew, as a map of indices says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from compiler.arith.index_map import IndexMap
from compiler.errors import IRError
from compiler.relax.nodes import Expr, PrimValue, StructInfo
from compiler.relax.op.core.backward import Backward, Gradients
from compiler.relax.op.core.layout import as_written
from compiler.relax.op.core.params import TensorArg
from compiler.relax.op.core.registry import OpPatternKind, operator
from compiler.relax.op.core.rules import tensor
from compiler.relax.op.core.use import Use, shown
from compiler.relax.op.core.work import nothing
from compiler.schedule.core.map_text import map_text, read_map
from compiler.schedule.core.state import Illegal
from compiler.te.operation import compute
from compiler.te.tensor import Tensor
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.intrin.intrin import if_then_else
from compiler.tir.nodes import PrimExpr

_MAPS: dict[str, IndexMap] = {}
"""Each map once, by its text: equal maps are the same object."""


def index_map_of(given: IndexMap | Callable[..., Any] | str) -> IndexMap:
    """The one map over 64-bit indices that a map, a function of indices or the text of one stands for."""
    text = map_text("layout_transform", given)
    if text not in _MAPS:
        indices = text.partition(":")[0].removeprefix("lambda").strip()
        try:
            _MAPS[text] = read_map(text, ["int64"] * (indices.count(",") + 1 if indices else 0))
        except Illegal as error:
            raise IRError(f"layout_transform: {error}", hint="lambda i, j: (i // 4, j, i % 4)") from None
    return _MAPS[text]


def index_map_text(mapping: IndexMap) -> str:
    """The map as scripts have it."""
    return f"T.index_map({map_text('index_map', mapping)})"


def _canonical(attrs: dict[str, Any]) -> dict[str, Any]:
    value = attrs["pad_value"]
    if isinstance(value, PrimValue):
        value = value.value
    if isinstance(value, n.IntImm | n.FloatImm):
        value = value.value
    if value is not None and not isinstance(value, int | float):
        raise IRError(f"layout_transform: pad_value must be a number, got {value!r}")
    return {"index_map": index_map_of(attrs["index_map"]), "pad_value": value}


def _info(use: Use) -> StructInfo:
    data, mapping = use.tensor("x"), use.call.attrs["index_map"]
    if data.ndim not in (-1, len(mapping.initial_indices)):
        use.fail(f"index_map takes {len(mapping.initial_indices)} indices, and x is {shown(data)}")
    if data.dims is None:
        return tensor(None, data.dtype, len(mapping.final_indices), data.vdevice)
    dims = [use.simplify(size) for size in mapping.map_shape(data.dims)]
    if use.call.attrs["pad_value"] is None and _is_constant(data.dims) and 0 not in map(ops.as_int, data.dims):
        _, beyond = mapping.non_surjective_inverse(data.dims)
        if not ops.is_const(beyond, 0):
            use.fail(f"there are places without an element of x, {shown(data)}", hint="give them a pad_value")
    return tensor(dims, data.dtype, vdevice=data.vdevice)


def _is_constant(dims: Any) -> bool:
    return all(ops.as_int(size) is not None for size in dims)


def _back(mapping: IndexMap, shape: Any) -> tuple[IndexMap, PrimExpr]:
    """The map back, and where there is padding.
    Sizes may be symbolic for a map that only orders dimensions."""
    if _is_constant(shape):
        return mapping.non_surjective_inverse([max(ops.as_int(size) or 0, 1) for size in shape])
    order = mapping.final_indices
    if set(order) != set(mapping.initial_indices) or len(order) != len(set(order)):
        raise IRError(
            f"layout_transform of symbolic sizes {tuple(shape)} by {mapping}: only orders of dimensions are known",
            hint="bind the sizes first: relax.transform.BindSymbolicVars",
        )
    places = tuple(n.Var(f"i{k}", "int64") for k in range(len(order)))
    return IndexMap(places, tuple(places[order.index(var)] for var in mapping.initial_indices)), ops.const(False)


def _te(x: Tensor, index_map: IndexMap, pad_value: float | None) -> Tensor:
    shape = index_map.map_shape(x.shape)
    back, beyond = _back(index_map, x.shape)
    padding = IndexMap(back.initial_indices, (beyond,))

    def value(*at: Any) -> PrimExpr:
        element: PrimExpr = x(*back.map_indices(at))
        [outside] = padding.map_indices(at)
        if pad_value is None or ops.is_const(outside, 0):
            return element
        return if_then_else(outside, ops.const(pad_value, x.dtype), element)

    result: Tensor = compute(shape, value, name="T_layout_transform", tag="injective")
    return result


def _gradient(use: Backward) -> Gradients:
    mapping = use.attrs["index_map"]

    def slope(grad: Tensor, x: Tensor) -> Tensor:
        result: Tensor = compute(x.shape, lambda *at: grad(*mapping.map_indices(at)), name="T_layout_back")
        return result

    return (use.te(slope, use.grad, use.arg(0)),)


@operator(
    "relax.layout_transform", infer=_info, te=_te, pattern=OpPatternKind.INJECTIVE, flops=nothing, layout=as_written,
    gradient=_gradient, canonical=_canonical,
)  # fmt: skip
def layout_transform(x: TensorArg, index_map: Any, pad_value: Any = None) -> Expr:
    """Move element [i, j, …] of `x` to where `index_map` says: `lambda i, j: (i // 4, j, i % 4)`.

    Places without an element hold `pad_value`.
    """


__all__ = ["index_map_of", "index_map_text", "layout_transform"]
