"""The values behind a model's names during its import."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from compiler.frontend.onnx.element_types import AnyArray
from compiler.ir.base import RelaxExpr
from compiler.relax.nodes.dims import simplified
from compiler.tir import nodes as n
from compiler.tir.nodes import PrimExpr


@dataclass(slots=True, eq=False)
class TensorValue:
    """A tensor: an expression of the graph, elements that are known now, or both.

    `array` holds the elements as the graph stores them. With dtype object, it holds integers and scalar expressions
    over the model's dimensions. `expr` is made at its first use, from `array` or by `deferred`. `wants` are the inputs
    whose values would make the elements known. `integers` are those from which a tensor of floats was dequantised.
    """

    dtype: str
    elem: int
    expr: RelaxExpr | None = None
    array: AnyArray | None = None
    wants: frozenset[str] = field(default_factory=frozenset)
    deferred: Deferred | None = None
    integers: Quantized | Sums | None = None

    @property
    def is_constant(self) -> bool:
        """Whether all elements are numbers that are known now."""
        return self.array is not None and self.array.dtype != object


@dataclass(slots=True, eq=False)
class Deferred:
    """An expression that is made when it is first wanted, and its dimensions."""

    make: Callable[[], RelaxExpr]
    dims: list[PrimExpr]


@dataclass(slots=True, eq=False)
class Quantized:
    """Integers that stand for (data - zero) * scale.
    A vector of scales lies along `axis`; with None there is one scale."""

    data: TensorValue
    scale: TensorValue
    zero: TensorValue | None
    axis: int | None


@dataclass(slots=True, eq=False)
class Sums:
    """int32 sums of products that stand for total * scale. Scales that differ lie along `axis`."""

    total: RelaxExpr
    scale: RelaxExpr
    axis: int


@dataclass(slots=True, eq=False)
class SequenceValue:
    """A sequence, whose length is known."""

    items: tuple[Value, ...]
    wants: frozenset[str] = field(default_factory=frozenset)


@dataclass(slots=True, eq=False)
class OptionalValue:
    """An optional value. Whether it is there is known."""

    item: TensorValue | SequenceValue | None


Value: TypeAlias = TensorValue | SequenceValue | OptionalValue


def plain(values: Sequence[Any]) -> AnyArray:
    """Integers and scalar expressions as an array: of int64 if all are known, else of objects."""
    known = [value.value if isinstance(value, n.IntImm) else value for value in values]
    if all(isinstance(value, int | np.integer) for value in known):
        return np.array(known, np.int64)
    found = np.empty(len(known), object)
    found[:] = known
    return found


def tidy(array: AnyArray, dtype: str) -> AnyArray:
    """An array of objects with constants as ints; of `dtype` when all are known."""
    if array.dtype != object:
        return array
    flat = plain([simple(value) for value in array.reshape(-1)])
    return flat.reshape(array.shape).astype(dtype) if flat.dtype != object else flat.reshape(array.shape)


def simple(value: Any) -> Any:
    """Simplify an element."""
    if isinstance(value, PrimExpr):
        found = simplified(value)
        return found.value if isinstance(found, n.IntImm) else found
    return int(value)
