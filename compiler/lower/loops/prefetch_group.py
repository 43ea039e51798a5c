"""Sums that ask memory, while one group of panels is used, for the next one.

    for g in T.parallel(39):            # a group of panels, in the caches while all rows use it
      for i in range(26):
        for k in range(768):            # annotations={"software_prefetch": "group"}
          prefetch W[(g + 1) * 61440 + ((i * 768 + k) * 2 - 19968) * 4]
          C[i …] += A[i, k] * W[g * 61440 + k * 80 …]

A group comes from memory, and no time would be left for that in its first use. Spread over the second half of the
steps of the group before, its lines are there in time, and not so early that others push them out again. The first
half asks for lines that are there. The last group asks for what lies behind the buffer, and prefetches never fault.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from compiler.arith.affine import as_affine
from compiler.arith.analyzer import Analyzer
from compiler.dtype import parse_dtype
from compiler.ir.visit import walk
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.nodes import ForKind, PrimExpr, Stmt
from compiler.tir.visit import free_vars, substitute

NEXT_GROUP = "group"
"""A distance of `software_prefetch`."""

CACHE_LINE = 64  # bytes: what one prefetch fetches
_MOST_LINES = 3  # in a step: where more are needed, memory is read all the time, and its own prefetchers see that
_UNKNOWN = 1 << 40  # and more iterations: their number is not known
_FASTER = 2  # than if all steps shared what is to be fetched
_L2 = 2  # locality, as LLVM counts it


def group_fetches(loop: n.For, around: Sequence[n.For], given: frozenset[n.Var]) -> list[Stmt]:
    """Return the prefetches in each iteration of `loop`, inside the loops `around`, for the next iteration of the
    innermost parallel one. There are none where sizes are not known, or nothing that is read moves with both loops by
    a line or more."""
    at = max((i for i, each in enumerate(around) if each.kind is ForKind.PARALLEL), default=None)
    if at is None:
        return []
    parallel, between = around[at], around[at + 1 :]
    inner = [node for node in walk(loop.body) if isinstance(node, n.For)]
    loops = [*between, loop, *inner]
    most = [_most(each) for each in loops]
    steps = math.prod(most[: len(between) + 1])
    if not 0 < steps < _UNKNOWN or max(most) >= _UNKNOWN:
        return []
    stored = {node.buffer.data for node in walk(loop.body) if isinstance(node, n.BufferStore)}
    defined = {node.var for node in walk(loop.body) if isinstance(node, n.LetStmt | n.Let)}
    fetched, found = set[n.Var](), list[Stmt]()
    for load in (node for node in walk(loop.body) if isinstance(node, n.BufferLoad)):
        data = load.buffer.data
        if data not in given - stored or data in fetched or len(load.indices) != 1:
            continue
        place, variables = load.indices[0], [each.loop_var for each in loops]
        lanes = place.lanes if isinstance(place, n.Ramp) else 1
        affine = as_affine(place.base if isinstance(place, n.Ramp) else place, variables)
        line = max(CACHE_LINE * 8 // parse_dtype(load.buffer.dtype).bits, 1)
        if affine is None or affine[0][len(between)] < line:
            continue
        factors, start = affine
        if parallel.loop_var not in free_vars(start) or defined & free_vars(start):
            continue
        if any(isinstance(node, n.BufferLoad) for node in walk(start)):
            continue
        size = lanes + sum(abs(factor) * (count - 1) for factor, count in zip(factors, most, strict=True))
        each = -(-size // steps) * _FASTER
        lines = -(-each // line)
        if lines > _MOST_LINES:
            continue
        fetched.add(data)
        here: PrimExpr = ops.const(0)
        for outside, count in zip((*between, loop), most, strict=False):
            here = ops.add(ops.mul(here, count), outside.loop_var)
        following = substitute(start, {parallel.loop_var: ops.add(parallel.loop_var, 1)})
        first = ops.add(following, ops.sub(ops.mul(here, each), steps * each * (_FASTER - 1) // _FASTER))
        found += [_fetch(load.buffer, ops.add(first, at * line)) for at in range(lines)]
    return found


def _most(loop: n.For) -> int:
    """Return a number that the variable of `loop` is always less than."""
    most = Analyzer().const_int_bound(ops.add(loop.min, loop.extent))[1]
    return _UNKNOWN if most is None else most


def _fetch(buffer: n.Buffer, place: PrimExpr) -> Stmt:
    return n.Evaluate(intrin.call("tir.prefetch", "int32", n.BufferLoad(buffer, (place,)), 0, _L2, 1))
