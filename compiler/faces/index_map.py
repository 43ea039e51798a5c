"""Index maps with the methods that Apache TVM's have besides.

Arrays laid out by a map, and axis separators.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, ClassVar

import numpy as np

from compiler.arith import index_map as core
from compiler.errors import IRError
from compiler.runtime.core.ndarray import NDArray, array
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr

_NUMPY: dict[type[PrimExpr], Callable[[Any, Any], Any]] = {
    n.Add: np.add,
    n.Sub: np.subtract,
    n.Mul: np.multiply,
    n.FloorDiv: np.floor_divide,
    n.FloorMod: np.mod,
}


class _AxisSeparator:
    """The mark between axes of a map that belong to different physical axes."""

    def __repr__(self) -> str:
        return "IndexMap.AXIS_SEPARATOR"


class IndexMap(core.IndexMap):
    """`final_indices`, expressions in `initial_indices`: element [i, j] lies at their values."""

    AXIS_SEPARATOR: ClassVar[_AxisSeparator] = _AxisSeparator()

    @staticmethod
    def from_func(  # type: ignore[override]
        mapping_function: Callable[..., Any],
        ndim: int | None = None,
        inverse_index_map: object = None,
        *,
        index_dtype: str = "int32",
    ) -> IndexMap:
        """The map of a function such as `lambda i, j: [i // 4, j, i % 4]`. `ndim`: how many indices a `*args`
        stands for. `inverse_index_map` is ignored: `inverse` works it out.

        Raises IRError where the number of indices is not told, and for axis separators.
        """
        found, separators = IndexMap.from_func_with_separators(mapping_function, ndim, index_dtype=index_dtype)
        if separators:
            raise IRError(
                "IndexMap.from_func: the function returns axis separators", hint="use from_func_with_separators"
            )
        return found

    @staticmethod
    def from_func_with_separators(
        mapping_function: Callable[..., Any],
        ndim: int | None = None,
        inverse_index_map: object = None,
        *,
        index_dtype: str = "int32",
    ) -> tuple[IndexMap, list[int]]:
        """The map of a function whose list may hold `AXIS_SEPARATOR`, and before which axes they stand."""
        separators: list[int] = []

        @wraps(mapping_function)
        def without(*indices: n.Var) -> list[Any]:
            places, kept = mapping_function(*indices), list[Any]()
            for place in places if isinstance(places, tuple | list) else (places,):
                if place is IndexMap.AXIS_SEPARATOR:
                    separators.append(len(kept))
                else:
                    kept.append(place)
            return kept

        found = core.IndexMap.from_func(without, ndim, index_dtype)
        return IndexMap(found.initial_indices, found.final_indices), separators

    def is_equivalent_to(self, other_map: core.IndexMap) -> bool:
        """Whether both map every index to the same place, as far as that can be shown."""
        return super().is_equivalent_to(other_map)

    def inverse(self, shape: Sequence[Any]) -> IndexMap:
        found = super().inverse(shape)
        return IndexMap(found.initial_indices, found.final_indices)

    def non_surjective_inverse(self, shape: Sequence[Any]) -> tuple[IndexMap, PrimExpr]:
        found, beyond = super().non_surjective_inverse(shape)
        return IndexMap(found.initial_indices, found.final_indices), beyond

    def map_ndarray(self, arr_src: NDArray) -> NDArray:
        """Return an array with each element of `arr_src` where the map has it.
        Raises IRError where two elements share a place, or a place has no element."""
        given = arr_src.numpy()
        self.inverse(given.shape)
        places: dict[n.Var, Any] = dict(zip(self.initial_indices, np.indices(given.shape, sparse=True)))
        made = np.empty([ops.as_int(size) or 0 for size in self.map_shape(given.shape)], given.dtype)
        made[tuple(_values(place, places) for place in self.final_indices)] = given
        return array(made, arr_src.device)


def _values(expr: PrimExpr, places: dict[n.Var, Any]) -> Any:
    match expr:
        case n.IntImm():
            return expr.value
        case n.Var():
            return places[expr]
        case n.Cast():
            return _values(expr.value, places)
        case n.BinaryOp() if type(expr) in _NUMPY:
            return _NUMPY[type(expr)](_values(expr.a, places), _values(expr.b, places))
    raise IRError(f"map_ndarray: {expr} is more than splitting and joining of indices")
