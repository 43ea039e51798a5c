"""Order: sorted elements, the largest ones, and where they stand."""

from __future__ import annotations

from typing import Any

from compiler.frontend.torch.conversion import Conversion
from compiler.frontend.torch.table import converts
from compiler.relax import op


def _sorted(c: Conversion, x: Any, dim: Any, descending: Any) -> Any:
    axis = c.axis(dim, c.ndim(x))
    places = c.emit(op.argsort(x, axis, bool(descending), "int64"))
    return c.emit(op.gather_elements(x, places, axis)), places


@converts("aten.sort.default", "aten.sort.stable")
def sort(c: Conversion, self: Any, dim: Any, descending: Any) -> Any:
    return _sorted(c, self, dim, descending)


@converts("aten.argsort.default", "aten.argsort.stable")
def argsort(c: Conversion, self: Any, dim: Any, descending: Any) -> Any:
    return op.argsort(self, c.axis(dim, c.ndim(self)), bool(descending), "int64")


@converts("aten.topk.default")
def topk(c: Conversion, self: Any, k: Any, dim: Any, largest: Any) -> Any:
    count = c.static(k, "the number of the largest")
    whole = op.topk(self, count, c.axis(dim, c.ndim(self)), "both", bool(largest), "int64")
    return c.items(whole, 2)


@converts("aten.median.dim")
def median(c: Conversion, self: Any, dim: Any, keepdim: Any) -> Any:
    return c.items(op.median(self, c.axis(dim, c.ndim(self)), bool(keepdim)), 2)


@converts("aten.bucketize.Tensor")
def bucketize(c: Conversion, self: Any, boundaries: Any, out_int32: Any, right: Any) -> Any:
    a, b = c.alike(self, boundaries)
    return op.bucketize(a, b, bool(out_int32), bool(right))
