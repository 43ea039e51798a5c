"""The variables that stand for dimensions in StructInfo.

Which it mentions, and which it gives a value to.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.ir.base import RelaxExpr
from compiler.relax.nodes.base import StructInfo
from compiler.relax.nodes.dims import variables
from compiler.relax.nodes.shape import PrimStructInfo, ShapeStructInfo
from compiler.relax.nodes.struct_info import FuncStructInfo, TensorStructInfo, TupleStructInfo
from compiler.tir.nodes import IntImm, PrimExpr, Var


def dims_of(info: StructInfo) -> Iterator[PrimExpr]:
    """Return the scalar expressions of `info`, in order.
    A function's signature is left out, because its dimensions are its own."""
    match info:
        case TensorStructInfo():
            yield from info.dims or ()
        case ShapeStructInfo():
            yield from info.values or ()
        case PrimStructInfo() if info.value is not None:
            yield info.value
        case TupleStructInfo():
            for item in info.fields:
                yield from dims_of(item)
        case _:
            pass


def shape_vars_of(info: StructInfo) -> Iterator[RelaxExpr]:
    """Return the expressions in `info` that are whole shapes of tensors without being lists of dimensions."""
    match info:
        case TensorStructInfo() if info.shape is not None and info.dims is None:
            yield info.shape
        case TupleStructInfo():
            for item in info.fields:
                yield from shape_vars_of(item)
        case _:
            pass


def symbols_in(info: StructInfo) -> list[Var]:
    """The variables that the dimensions of `info` mention, each once, in order."""
    found: dict[Var, None] = {}
    for value in dims_of(info):
        if not isinstance(value, IntImm):
            found.update(dict.fromkeys(variables(value)))
    return list(found)


def symbols_set_by(info: StructInfo) -> list[Var]:
    """Return the variables that a value described by `info` gives a value to.
    They are those that are a whole dimension of it."""
    return list(dict.fromkeys(value for value in dims_of(info) if isinstance(value, Var)))


def signature_symbols(info: FuncStructInfo) -> list[Var]:
    """The variables that the parameters of a function give a value to."""
    return list(dict.fromkeys(var for param in info.params or () for var in symbols_set_by(param)))
