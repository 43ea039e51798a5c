"""Accesses that are certain to fall outside their buffer are refused before anything is made of them.

    for i in 16:
      block B: B[i] = A[i + 1]        A has 16 elements: A[16] is read when i = 15

Only what is certain is refused. It is an access that runs for every point of a box of loop variables with constant
bounds, at an index that is a sum of multiples of them. A condition that bounds one variable narrows the box; what
stands under any other condition, or in a loop whose bounds vary, is left alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from compiler.arith.affine import as_affine
from compiler.errors import LoweringError
from compiler.ir.base import Node, Op, Span
from compiler.ir.text import script
from compiler.ir.visit import children
from compiler.lower.analysis.conditions import conjuncts
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr
from compiler.tir.transform import tir_pass
from compiler.tir.visit import substitute

Box = Mapping[n.Var, tuple[int, int]]  # the first and the last value of each variable, every combination of which runs
_IF = Op.get("tir.if_then_else")
_OPPOSITE: Mapping[type[n.CmpOp], type[n.CmpOp]] = {n.LT: n.GE, n.GE: n.LT, n.GT: n.LE, n.LE: n.GT}


class AccessOutOfBounds(LoweringError, kind="access_out_of_bounds"):
    """An access that is certain to fall outside its buffer."""


@tir_pass("CheckBounds")
def check_bounds(func: n.PrimFunc) -> n.PrimFunc:
    """Refuse an access that is certainly outside its buffer; return `func` itself.

    Raises AccessOutOfBounds that names the buffer, the index, the values it takes, the block, and the user's line where
    that is known.
    """
    _visit(func.body, _Place())
    return func


@dataclass(frozen=True, slots=True)
class _Place:
    """Where in the function a node stands. `box` is None where it is not certain to run."""

    box: Box | None = field(default_factory=dict)
    values: Mapping[n.Var, PrimExpr] = field(default_factory=dict)  # of the blocks' variables
    block: str = ""
    span: Span | None = None

    def within(self, box: Box | None) -> _Place:
        return _Place(box, self.values, self.block, self.span)


def _visit(node: Node, place: _Place) -> None:
    if place.box is None:
        return
    match node:
        case n.For():
            _visit(node.body, place.within(_with_loop(place.box, node)))
            return
        case n.BlockRealize():
            _visit_block(node, place)
            return
        case n.IfThenElse() | n.Select():
            _visit_choice(node.condition, *_sides(node), place)
            return
        case n.Call() if node.op is _IF:
            _visit_choice(node.args[0], node.args[1], node.args[2], place)
            return
        case n.While() | n.And() | n.Or():
            return  # how often, and whether the second side, is not known
        case n.BufferLoad() | n.BufferStore():
            if node.predicate is None:
                _check(node.buffer, node.indices, place)
        case _:
            pass
    for child in children(node):
        _visit(child, place)


def _sides(node: n.IfThenElse | n.Select) -> tuple[Node, Node | None]:
    if isinstance(node, n.IfThenElse):
        return node.then_case, node.else_case
    return node.true_value, node.false_value


def _visit_block(realize: n.BlockRealize, place: _Place) -> None:
    block = realize.block
    bound = {iv.var: substitute(v, place.values) for iv, v in zip(block.iter_vars, realize.iter_values)}
    box = _narrowed(place.box, realize.predicate, place.values | bound)  # type: ignore[operator]
    inside = _Place(box, {**place.values, **bound}, block.name_hint, block.span or place.span)
    for part in (block.init, block.body):
        if part is not None:
            _visit(part, inside)


def _visit_choice(condition: PrimExpr, yes: Node, no: Node | None, place: _Place) -> None:
    _visit(condition, place)
    _visit(yes, place.within(_narrowed(place.box, condition, place.values)))
    if no is not None:
        _visit(no, place.within(_narrowed(place.box, ops.logical_not(condition), place.values)))


# ------------------------------------------------------------------------------------- the box


def _with_loop(box: Box, loop: n.For) -> Box | None:
    first, extent = ops.as_int(loop.min), ops.as_int(loop.extent)
    if first is None or extent is None or extent < 1:
        return None
    return {**box, loop.loop_var: (first, first + extent - 1)}


def _narrowed(box: Box | None, condition: PrimExpr, values: Mapping[n.Var, PrimExpr]) -> Box | None:
    """`box` where `condition` holds; None when that is no box, or empty."""
    if box is None:
        return None
    result = dict(box)
    for part in conjuncts(condition):
        bound = _bound(substitute(part, values), box)
        if bound is None:
            return None
        var, low, high = bound
        old = result[var]
        result[var] = (max(old[0], low), min(old[1], high))
        if result[var][0] > result[var][1]:
            return None
    return result


def _bound(condition: PrimExpr, box: Box) -> tuple[n.Var, int, int] | None:
    """(variable, least, greatest) that a comparison allows; None when it is no bound of one variable."""
    match condition:
        case n.Not(a=n.CmpOp() as inner) if type(inner) in _OPPOSITE:
            return _bound(_OPPOSITE[type(inner)](inner.a, inner.b), box)
        case n.LT(a, b):
            greater, strict = ops.sub(b, a), 1
        case n.LE(a, b):
            greater, strict = ops.sub(b, a), 0
        case n.GT(a, b):
            greater, strict = ops.sub(a, b), 1
        case n.GE(a, b):
            greater, strict = ops.sub(a, b), 0
        case _:
            return None
    sum_ = _affine(greater, box)
    if sum_ is None or len(sum_[0]) != 1:
        return None
    ((var, factor),) = sum_[0].items()
    least = strict - sum_[1]  # factor * var >= least
    first, last = box[var]
    return (var, -(-least // factor), last) if factor > 0 else (var, first, least // factor)


def _affine(expr: PrimExpr, box: Box) -> tuple[dict[n.Var, int], int] | None:
    """(factor of each variable, constant) of a sum of multiples of the box's variables."""
    if expr.dtype not in ("int32", "int64"):
        return None
    found = as_affine(expr, list(box))
    constant = None if found is None else ops.as_int(found[1])
    if found is None or constant is None:
        return None
    return {var: factor for var, factor in zip(box, found[0]) if factor}, constant


# ------------------------------------------------------------------------------------ the check


def _check(buffer: n.Buffer, indices: tuple[PrimExpr, ...], place: _Place) -> None:
    assert place.box is not None
    for dim, (index, size) in enumerate(zip(indices, buffer.shape)):
        elements = ops.as_int(size)
        sum_ = None if elements is None else _affine(substitute(index, place.values), place.box)
        if sum_ is None or elements is None:
            continue
        low = high = sum_[1]
        for var, factor in sum_[0].items():
            ends = sorted(factor * end for end in place.box[var])
            low, high = low + ends[0], high + ends[1]
        if low < 0 or high >= elements:
            raise _outside(buffer, dim, index, (low, high), elements, place)


def _outside(
    buffer: n.Buffer, dim: int, index: PrimExpr, reached: tuple[int, int], elements: int, place: _Place
) -> AccessOutOfBounds:
    block = f" in block {place.block!r}" if place.block else ""
    where = "" if place.span is None else f" ({place.span.source}:{place.span.line})"
    low, high = reached
    takes = f"is {low}" if low == high else f"runs from {low} to {high}"
    return AccessOutOfBounds(
        f"index {dim} of buffer {buffer.name!r}{block}, {script(index)}, {takes}, outside the buffer's "
        f"{elements} elements there{where}",
        hint="guard it with if_then_else, or correct the shape or the index",
        detail={"buffer": buffer.name, "dimension": dim, "block": place.block, "low": low, "high": high},
    )
