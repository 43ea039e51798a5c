"""The text of index maps, as traces carry them.

A map travels as the text of a Python lambda. Only sums, products, quotients and remainders of its parameters and
integers are read; nothing is evaluated as Python.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Sequence
from typing import Any

from compiler.arith.index_map import IndexMap
from compiler.dtype import parse_dtype
from compiler.errors import IRError, ScheduleError
from compiler.python_text import parsed_expression
from compiler.schedule.core.state import Illegal
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr

MapLike = IndexMap | Callable[..., Any] | str
PadValue = str | int | float | None  # as a trace has it

_MAX_TEXT = 2000
_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], PrimExpr]] = {
    ast.Add: ops.add,
    ast.Sub: ops.sub,
    ast.Mult: ops.mul,
    ast.FloorDiv: ops.floordiv,
    ast.Mod: ops.floormod,
}
_SIGNS: dict[type[PrimExpr], str] = {n.Add: "+", n.Sub: "-", n.Mul: "*", n.FloorDiv: "//", n.FloorMod: "%"}


# ------------------------------------------------------------------------------------ writing


def map_text(prim: str, index_map: MapLike, ndim: int | None = None) -> str:
    """The text of a map over `ndim` indices, for the primitive `prim`.
    Raises ScheduleError when it takes another number of them or uses more than + - * // %."""
    if isinstance(index_map, str):
        return index_map
    try:
        read = index_map if isinstance(index_map, IndexMap) else IndexMap.from_func(index_map, ndim)
    except IRError as error:
        raise ScheduleError(f"{prim}: {error.message}", hint=error.hint) from None
    names = _names(read.initial_indices)
    places = "".join(f"{_text(prim, place, names)}, " for place in read.final_indices).rstrip()
    return f"lambda {', '.join(names.values())}: ({places})"


def pad_text(prim: str, pad_value: MapLike | PrimExpr | float | None, places: str) -> PadValue:
    """Return the text of a padding value for a trace: a number, or a map to one value.
    It maps the places of the map `places`. Raises ScheduleError as `map_text` does."""
    match pad_value:
        case None | str():
            return pad_value
        case n.IntImm() | n.FloatImm():
            return pad_text(prim, pad_value.value, places)
        case bool() | int():
            return int(pad_value)
        case float():
            return pad_value if math.isfinite(pad_value) else str(pad_value)
        case PrimExpr():
            raise ScheduleError(f"{prim}: pad_value is a number or a map of indices, got {pad_value!r}"[:200])
    try:
        read = pad_value if isinstance(pad_value, IndexMap) else IndexMap.from_func(pad_value, _rank(places))
    except IRError as error:
        raise ScheduleError(f"{prim}: pad_value: {error.message}", hint=error.hint) from None
    if len(read.final_indices) != 1:
        raise ScheduleError(f"{prim}: pad_value gives {len(read.final_indices)} values for an element, not one")
    [value] = read.final_indices
    while isinstance(value, n.Cast):  # it gets the dtype of the buffer
        value = value.value
    if isinstance(value, n.FloatImm):
        return pad_text(prim, value, places)
    return map_text(prim, IndexMap(read.initial_indices, (value,)))


def _rank(text: str) -> int | None:
    """How many places the map `text` gives; None for a text that is no map."""
    try:
        parsed = parsed_map(text)
    except Illegal:
        return None
    return len(map_places(parsed))


def _names(variables: Sequence[n.Var]) -> dict[n.Var, str]:
    """Give each variable a name of its own that Python can read, its given one if possible."""
    given = [var.name for var in variables]
    if len(set(given)) == len(given) and all(name.isascii() and name.isidentifier() for name in given):
        return dict(zip(variables, given))
    return {var: f"d{i}" for i, var in enumerate(variables)}


def _text(prim: str, expr: PrimExpr, names: dict[n.Var, str]) -> str:
    match expr:
        case n.Var() if expr in names:
            return names[expr]
        case n.IntImm():
            return str(expr.value)
        case n.BinaryOp() if type(expr) in _SIGNS:
            return f"({_text(prim, expr.a, names)} {_SIGNS[type(expr)]} {_text(prim, expr.b, names)})"
    raise ScheduleError(f"{prim}: an index map is made of its indices and + - * // %, not {expr!r}"[:200])


# ------------------------------------------------------------------------------------ reading


def read_map(text: str, dtypes: Sequence[str], sizes: Sequence[int] = ()) -> IndexMap:
    """Read the map `text`, over one index of each of `dtypes`.
    Its further parameters are the constants `sizes`. Raises Illegal for a text that is no such map."""
    parsed = parsed_map(text)
    names = [a.arg for a in parsed.args.args]
    wanted = len(dtypes) + len(sizes)
    if len(names) != wanted or len(set(names)) != len(names):
        raise Illegal(f"the index map takes {len(names)} arguments, {wanted} are needed")
    indices = tuple(n.Var(name, dtype) for name, dtype in zip(names, dtypes))
    values: dict[str, PrimExpr] = dict(zip(names, [*indices, *map(ops.const, sizes)]))
    return IndexMap(indices, tuple(_expression(item, values) for item in map_places(parsed)))


def parsed_map(text: str) -> ast.Lambda:
    """The tree of a map's text. Raises Illegal for one that is too long, or no lambda."""
    try:
        parsed = parsed_expression(text if len(text) <= _MAX_TEXT else "")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise Illegal("the index map cannot be read") from None
    if not isinstance(parsed, ast.Lambda):
        raise Illegal("the index map is no lambda")
    return parsed


def map_places(parsed: ast.Lambda) -> list[ast.expr]:
    """The expression that a map has for each dimension."""
    return parsed.body.elts if isinstance(parsed.body, ast.Tuple | ast.List) else [parsed.body]


def read_pad(value: PadValue, places: Sequence[PrimExpr], dtype: str) -> PrimExpr:
    """Return the padding value at the element `places`, from a trace's `value`, in `dtype`.
    Raises Illegal for a text that is no number and no map of one value."""
    number = float(value) if value in ("inf", "-inf", "nan") else value
    if not isinstance(number, str):
        assert number is not None
        if not parse_dtype(dtype).is_float and not float(number).is_integer():
            raise Illegal(f"pad_value {number} is no {dtype}")
        return ops.const(number, dtype)
    found = read_map(number, [place.dtype for place in places]).map_indices(places)
    if len(found) != 1:
        raise Illegal(f"pad_value gives {len(found)} values for an element, not one")
    return ops.cast(dtype, found[0])


def _expression(node: ast.expr, values: dict[str, PrimExpr]) -> PrimExpr:
    match node:
        case ast.Name(id=name) if name in values:
            return values[name]
        case ast.Constant(value=int() as value) if type(value) is int and abs(value) < 1 << 31:
            return ops.const(value)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return ops.neg(_expression(operand, values))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            a, b = _expression(left, values), _expression(right, values)
            size = ops.as_int(b)
            if isinstance(op, ast.FloorDiv | ast.Mod) and (size is None or size < 1):
                raise Illegal("the index map divides by something that is no positive constant")
            return _OPERATORS[type(op)](a, b)
    raise Illegal(f"the index map holds more than + - * // % of its arguments: {ast.unparse(node)[:40]!r}")
