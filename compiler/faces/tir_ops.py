"""Functions that build expressions, with the parameters and the strictness that Apache TVM's have.

Each takes a `span` last, as TVM's do, and leaves it unused: nodes keep the line that made them.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

from compiler.dtype import element_of, parse_dtype
from compiler.errors import IRError
from compiler.tir import composed, ops
from compiler.tir.intrin import intrin
from compiler.tir.nodes import Evaluate, PrimExpr, SeqStmt, Stmt
from compiler.tir.visit import seq

_SPAN = inspect.Parameter("span", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None)


def _spanned(build: Callable[..., PrimExpr]) -> Callable[..., PrimExpr]:
    """`build` with one more parameter, `span`, that is left unused."""
    signature = inspect.signature(build)
    count = len(signature.parameters)

    @wraps(build)
    def spanned(*args: Any, **named: Any) -> PrimExpr:
        named.pop("span", None)
        return build(*args[:count], **named) if len(args) == count + 1 else build(*args, **named)

    spanned.__signature__ = signature.replace(parameters=[*signature.parameters.values(), _SPAN])  # type: ignore[attr-defined]
    return spanned


_SPANNED: dict[str, Callable[..., PrimExpr]] = {
    "abs": intrin.abs,
    "bitwise_and": intrin.bitwise_and,
    "bitwise_not": intrin.bitwise_not,
    "bitwise_or": intrin.bitwise_or,
    "bitwise_xor": intrin.bitwise_xor,
    "ceil": intrin.ceil,
    "ceildiv": ops.ceildiv,
    "div": ops.div,
    "floor": intrin.floor,
    "floordiv": ops.floordiv,
    "floormod": ops.floormod,
    "if_then_else": intrin.if_then_else,
    "indexdiv": ops.floordiv,
    "indexmod": ops.floormod,
    "infinity": composed.infinity,
    "isfinite": intrin.isfinite,
    "isinf": intrin.isinf,
    "isnan": intrin.isnan,
    "likely": intrin.likely,
    "max_value": ops.max_value,
    "min_value": ops.min_value,
    "nearbyint": intrin.nearbyint,
    "pow": intrin.power,
    "power": intrin.power,
    "reinterpret": intrin.reinterpret,
    "round": intrin.round,
    "shift_left": intrin.left_shift,
    "shift_right": intrin.right_shift,
    "trunc": intrin.trunc,
    "truncdiv": ops.truncdiv,
    "truncmod": ops.truncmod,
}
"""Functions of this module by their names in TVM, and the ones of ours that they are with a `span`."""

globals().update({name: _spanned(build) for name, build in _SPANNED.items()})

if TYPE_CHECKING:

    def __getattr__(name: str) -> Callable[..., PrimExpr]: ...


def all(*args: Any, span: object = None) -> PrimExpr:
    """Logical and. Raises IRError without a condition."""
    return ops.logical_and(*_given(args, "all"))


def any(*args: Any, span: object = None) -> PrimExpr:
    """Logical or. Raises IRError without a condition."""
    return ops.logical_or(*_given(args, "any"))


def _given(conditions: tuple[Any, ...], name: str) -> tuple[Any, ...]:
    if not conditions:
        raise IRError(f"{name} needs at least one condition")
    return conditions


def const(value: bool | int | float, dtype: str | None = None, span: object = None) -> PrimExpr:
    """A constant, of a dtype that holds it. Without a dtype: as `compiler.tir.ops.const` chooses.

    Raises IRError for a value that the dtype does not hold.
    """
    if dtype is not None and isinstance(value, int | float):
        _check_fits(value, dtype)
    return ops.const(value, dtype)


def _check_fits(value: float, dtype: str) -> None:
    parsed = parse_dtype(dtype)
    if parsed.code == "handle":
        raise IRError("there are no constants of dtype handle")
    if parsed.is_float:
        fits = not math.isfinite(value) or -(most := _greatest(dtype)) <= value <= most
    else:
        bits = 1 if parsed.code == "bool" else parsed.bits - parsed.is_signed
        fits = math.isfinite(value) and -(1 << bits if parsed.is_signed else 0) <= int(value) < 1 << bits
    if not fits:
        raise IRError(f"{value} exceeds the range of {dtype}")


def _greatest(dtype: str) -> float:
    try:
        return float(ops.max_value(element_of(dtype)).value)  # type: ignore[attr-defined]
    except KeyError:  # a narrow float, whose greatest value no table has
        return math.inf


def stmt_seq(*args: Any) -> Stmt:
    """The statements one after another; expressions are evaluated."""
    return seq(*(arg if isinstance(arg, Stmt) else Evaluate(arg) for arg in args))


def stmt_list(stmt: Stmt) -> list[Stmt]:
    """The statements of a sequence; one statement alone is the only one."""
    if not isinstance(stmt, SeqStmt):
        return [stmt]
    return [part for inner in stmt.seq for part in stmt_list(inner)]
