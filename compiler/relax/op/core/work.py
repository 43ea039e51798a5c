"""How much an operator does: arithmetic operations, and bytes read and written.

Symbolic where shapes are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from compiler.dtype import parse_dtype
from compiler.relax.nodes import Call, StructInfo, TensorStructInfo, TupleStructInfo, info_of
from compiler.relax.nodes.dims import int64, simplified
from compiler.tir.nodes import PrimExpr

Count = Callable[[Call], "PrimExpr | None"]
"""A number of a call whose StructInfo is known; None where its shapes do not tell."""


@dataclass(frozen=True, slots=True)
class Work:
    """The work of a call. None: unknown, as a shape is."""

    flops: PrimExpr | None
    bytes: PrimExpr | None


def tensors_in(info: StructInfo | None) -> Iterator[TensorStructInfo]:
    """The tensors of a value, those in tuples, too."""
    if isinstance(info, TensorStructInfo):
        yield info
    elif isinstance(info, TupleStructInfo):
        for item in info.fields:
            yield from tensors_in(item)


def elements(info: StructInfo | None) -> PrimExpr | None:
    """How many elements the tensors of a value have together."""
    total: PrimExpr = int64(0)
    for tensor in tensors_in(info):
        if tensor.dims is None:
            return None
        count: PrimExpr = int64(1)
        for size in tensor.dims:
            count = count * size
        total = total + count
    return simplified(total)


def size_in_bytes(info: StructInfo | None) -> PrimExpr | None:
    """How many bytes the tensors of a value take together."""
    total: PrimExpr = int64(0)
    for tensor in tensors_in(info):
        count = elements(tensor)
        if count is None or not tensor.dtype:
            return None
        total = total + count * parse_dtype(tensor.dtype).bytes
    return simplified(total)


def inputs_and_outputs(call: Call) -> PrimExpr | None:
    """Every argument read once, the result written once."""
    total: PrimExpr = int64(0)
    for info in (*map(info_of, call.args), info_of(call)):
        part = size_in_bytes(info)
        if part is None:
            return None
        total = total + part
    return simplified(total)


def nothing(call: Call) -> PrimExpr | None:
    """Zero."""
    return int64(0)


def per_output(operations: int) -> Count:
    """So many operations for each element of the result."""

    def count(call: Call) -> PrimExpr | None:
        number = elements(info_of(call))
        return None if number is None else simplified(number * operations)

    return count


def per_input(operations: int, position: int = 0) -> Count:
    """So many operations for each element of an argument."""

    def count(call: Call) -> PrimExpr | None:
        number = elements(info_of(call.args[position]))
        return None if number is None else simplified(number * operations)

    return count
