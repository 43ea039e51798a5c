"""Drop masks of sums in registers at the edge, because nobody reads the surplus lanes.

    acc[T.Ramp(16, 1, 16)] = acc[...] + x, where lanes < 13     →     acc[T.Ramp(16, 1, 16)] = acc[...] + x

A masked store keeps the other lanes. Each sum then waits for a choice between its old and its new value; a zeroing mask
even depends on the register's old content. Suppose each access to a place of a small array has the same mask. Then
those lanes are only used for the place itself, so they may hold anything. What is read from memory stays masked, and so
do loads of the place that go anywhere else.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

from compiler.arith.analyzer import Analyzer
from compiler.ir.base import Node, Op
from compiler.ir.structural import structural_equal
from compiler.ir.visit import children, map_children, replace, walk
from compiler.lower.analysis.lane_masks import lane_mask
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr, Stmt
from compiler.tir.transform import tir_pass
from compiler.tir.verify import LoweringStage
from compiler.tir.visit import free_vars, substitute

_IF_THEN_ELSE = Op.get("tir.if_then_else")
_MOST_PLACES = 1024  # of a statement: larger arrays are no registers


@tir_pass("DropLaneMasks", gives=LoweringStage.LOWERED)
def whole_lanes(func: n.PrimFunc) -> n.PrimFunc:
    """Drop the masks of values that are only added to elements of local arrays."""

    def go(node: Node) -> Node:
        if isinstance(node, PrimExpr):
            return node
        rebuilt = map_children(node, go)
        if isinstance(rebuilt, n.Allocate) and rebuilt.scope == "local":
            return _unmasked(rebuilt)
        return rebuilt

    body = go(func.body)
    assert isinstance(body, Stmt)
    return func.with_body(body)


@dataclass(frozen=True)
class _Access:
    """A load or store of the array, under these loops, where these conditions hold."""

    node: n.BufferLoad | n.BufferStore
    loops: Mapping[n.Var, n.For]
    conditions: tuple[PrimExpr, ...] = ()


def _unmasked(allocation: n.Allocate) -> n.Allocate:
    size = ops.as_int(allocation.extents[0]) if len(allocation.extents) == 1 else None
    accesses = list(_accesses(allocation.body, allocation, {}, ()))
    if size is None or all(access.node.predicate is None for access in accesses):
        return allocation
    if not _alike(accesses, allocation, size):
        return allocation

    def go(node: Node) -> Node:
        if isinstance(node, n.BufferStore) and _is_of(node, allocation) and _in_lanes(node.value):
            return replace(node, predicate=None, value=_plain(node.value, allocation))
        return map_children(node, go) if isinstance(node, Stmt) else node

    body = go(allocation.body)
    assert isinstance(body, Stmt)
    return replace(allocation, body=body)


def _plain(value: PrimExpr, allocation: n.Allocate) -> PrimExpr:
    """Return what is stored, with the loads of the array itself unmasked."""

    def go(node: Node) -> Node:
        if isinstance(node, n.BufferLoad) and _is_of(node, allocation):
            return replace(node, predicate=None)
        return node if isinstance(node, n.BufferLoad) else map_children(node, go)

    plain = go(value)
    assert isinstance(plain, PrimExpr)
    return plain


def _is_of(node: Node, allocation: n.Allocate) -> bool:
    return isinstance(node, n.BufferLoad | n.BufferStore) and node.buffer.data is allocation.buffer_var


def _in_lanes(value: PrimExpr) -> bool:
    """Whether each lane of a value depends only on the same lane of other values."""
    def across(node: Node) -> bool:
        chooses = isinstance(node, n.Call) and node.op is _IF_THEN_ELSE
        return isinstance(node, n.Call | n.Shuffle | n.Let) and not chooses

    return not any(across(node) for node in walk(value))


def _accesses(
    node: Node, allocation: n.Allocate, loops: Mapping[n.Var, n.For], conditions: tuple[PrimExpr, ...]
) -> Iterator[_Access]:
    if isinstance(node, n.BufferLoad | n.BufferStore) and _is_of(node, allocation):
        yield _Access(node, loops, conditions)
    if isinstance(node, n.For):
        loops = {**loops, node.loop_var: node}
    if isinstance(node, n.IfThenElse):
        yield from _accesses(node.condition, allocation, loops, conditions)
        yield from _accesses(node.then_case, allocation, loops, (*conditions, node.condition))
        if node.else_case is not None:
            yield from _accesses(node.else_case, allocation, loops, (*conditions, n.Not(node.condition)))
        return
    for child in children(node):
        yield from _accesses(child, allocation, loops, conditions)


def _alike(accesses: list[_Access], allocation: n.Allocate, size: int) -> bool:
    """Whether the array is only accessed in whole vectors that do not overlap, each with one mask."""
    uses = sum(node is allocation.buffer_var for node in walk(allocation.body) if isinstance(node, n.Var))
    inside = {node.loop_var for node in walk(allocation.body) if isinstance(node, n.For)}
    inside |= {node.var for node in walk(allocation.body) if isinstance(node, n.LetStmt | n.Let)}
    masks: dict[int, PrimExpr | None] = {}
    lanes = {getattr(access.node.indices[0], "lanes", 1) for access in accesses}
    if uses or len(lanes) != 1:
        return False
    (width,) = lanes
    if any(access.node.buffer.dtype != allocation.dtype for access in accesses):
        return False
    for access in accesses:
        for place, mask in _places(access, inside):
            if place is None or place % width or not 0 <= place <= size - width:
                return False
            if place in masks and not _same(masks[place], mask):
                return False
            masks[place] = mask
    return True


def _places(access: _Access, inside: set[n.Var]) -> Iterator[tuple[int | None, PrimExpr | None]]:
    """The places that an access touches while its loops run, each with its mask.
    None if that can't be told."""
    (index,), mask = access.node.indices, access.node.predicate
    if not isinstance(index, n.Ramp) or ops.as_int(index.stride) != 1:
        yield None, mask
        return
    used = free_vars(index.base) | (free_vars(mask) if mask is not None else set())
    moving = [access.loops[var] for var in used if var in inside and var in access.loops]
    extents = [ops.as_int(loop.extent) for loop in moving]
    starts = [ops.as_int(loop.min) for loop in moving]
    fixed = [e for e in (*extents, *starts) if e is not None]
    loads = mask is not None and any(isinstance(node, n.BufferLoad | n.Call) for node in walk(mask))
    known = len(fixed) == 2 * len(moving) and all(v in access.loops for v in used if v in inside)
    if not known or loads or math.prod(e or 0 for e in extents) > _MOST_PLACES:
        yield None, mask
        return
    analyzer = Analyzer()
    for position in product(*(range(s or 0, (s or 0) + (e or 0)) for s, e in zip(starts, extents, strict=True))):
        values = {loop.loop_var: n.IntImm(loop.loop_var.dtype, at) for loop, at in zip(moving, position, strict=True)}
        if any(ops.as_int(analyzer.simplify(substitute(test, values))) == 0 for test in access.conditions):
            continue
        place = ops.as_int(analyzer.simplify(substitute(index.base, values)))
        yield place, None if mask is None else _unless_whole(analyzer.simplify(substitute(mask, values)))


def _same(one: PrimExpr | None, other: PrimExpr | None) -> bool:
    if one is None or other is None:
        return one is other
    known = lane_mask(one), lane_mask(other)
    if known[0] is not None and known[1] is not None and not known[0].when and not known[1].when:
        return known[0].on == known[1].on
    return structural_equal(one, other)


def _unless_whole(mask: PrimExpr) -> PrimExpr | None:
    """The mask, or None if all lanes are on."""
    known = lane_mask(mask)
    return None if known is not None and not known.when and all(known.on) else mask
