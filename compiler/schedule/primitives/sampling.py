"""Sampling primitives: they name integers that a search decides.

The step holds what may be chosen; the decision stands apart from it, in the trace's list of decisions. A
decision that is not given is drawn at random (`draw_...`).
"""

from __future__ import annotations

import math

import numpy as np

from compiler.schedule.analysis.dataflow import common_prefix, scope_around
from compiler.schedule.core.locations import INLINE_LOCATION, ROOT_LOCATION
from compiler.schedule.core.state import Illegal, StepEffect, loop_at, loop_path
from compiler.schedule.core.step import Decision, primitive
from compiler.schedule.primitives.compute_at import compute_at
from compiler.tir import nodes as n
from compiler.tir import ops

# sizes that suit vectors, registers and caches; divisors of the extent are candidates too
_LADDER = (1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 20, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 192, 256, 384, 512)


def _extent(func: n.PrimFunc, loop: n.Var) -> int:
    extent = ops.as_int(loop_at(loop_path(func, loop)).extent)
    if extent is None:
        raise Illegal(f"the extent of loop {loop.name!r} is not constant", loop)
    return extent


def _check_shape(loop: n.Var, parts: int, max_innermost_factor: int) -> None:
    if parts < 1 or max_innermost_factor < 1:
        raise Illegal(
            f"n and max_innermost_factor for loop {loop.name!r} must be positive, got {parts} and "
            f"{max_innermost_factor}",
            loop,
        )


# ------------------------------------------------------------------------------- categorical


def draw_categorical(
    rng: np.random.Generator, func: n.PrimFunc, candidates: tuple[int, ...], probs: tuple[float, ...]
) -> Decision:
    """A position in `candidates`, drawn with `probs`."""
    _check_candidates(candidates, probs)
    weights = np.asarray(probs, dtype=np.float64)
    return int(rng.choice(len(candidates), p=weights / weights.sum()))


@primitive(attrs={"candidates": (tuple,), "probs": (tuple,)}, outputs="int", draw=draw_categorical)
def sample_categorical(
    func: n.PrimFunc, candidates: tuple[int, ...], probs: tuple[float, ...], decision: Decision
) -> StepEffect:
    """One of the integers `candidates`; the decision is its position.

    v0 = sample_categorical([8, 16, 32], [0.25, 0.5, 0.25], decision=1)   →   v0 is 16
    """
    _check_candidates(candidates, probs)
    if not isinstance(decision, int) or not 0 <= decision < len(candidates):
        raise Illegal(f"the decision {decision!r} is no position in the {len(candidates)} candidates")
    return StepEffect(func, (candidates[decision],))


def _check_candidates(candidates: tuple[int, ...], probs: tuple[float, ...]) -> None:
    if not candidates or any(type(c) is not int for c in candidates):
        raise Illegal("candidates must be integers, at least one")
    plain = len(probs) == len(candidates) and all(type(p) in (int, float) and 0 <= p < math.inf for p in probs)
    if not plain or not 0 < sum(probs) < math.inf:
        raise Illegal(f"probs must be {len(candidates)} numbers from 0 up, not all 0")


# ------------------------------------------------------------------------------------- tiles


def draw_perfect_tile(
    rng: np.random.Generator, func: n.PrimFunc, loop: n.Var, n: int, max_innermost_factor: int
) -> Decision:
    """`n` factors whose product is the extent, the last one at most `max_innermost_factor`."""
    _check_shape(loop, n, max_innermost_factor)
    rest = _extent(func, loop)
    factors: list[int] = []
    for position in range(n - 1):
        limit = max_innermost_factor if position == 0 else rest
        choices = [d for d in divisors(rest) if d <= limit]
        factors.insert(0, choices[int(rng.integers(len(choices)))])
        rest //= factors[0]
    return (rest, *factors)


@primitive("loop", attrs={"n": (int,), "max_innermost_factor": (int,)}, outputs="int*", draw=draw_perfect_tile)
def sample_perfect_tile(
    func: n.PrimFunc, loop: n.Var, n: int, max_innermost_factor: int, decision: Decision
) -> StepEffect:
    """`n` factors of a loop whose product is its extent; the decision is the factors, outermost first.

    for i in 512: ...   v0, v1, v2 = sample_perfect_tile(i, 3, 16, decision=[16, 4, 8])   →   16, 4, 8
    """
    _check_shape(loop, n, max_innermost_factor)
    extent = _extent(func, loop)
    factors = decision if isinstance(decision, tuple) else ()
    if len(factors) != n or any(f < 1 for f in factors) or math.prod(factors) != extent:
        raise Illegal(f"the decision {decision!r} is not {n} factors of {extent}, loop {loop.name!r}", loop)
    return StepEffect(func, factors)


def draw_partitioned_tile(
    rng: np.random.Generator, func: n.PrimFunc, loop: n.Var, n: int, partition_pos: int, innerpart_factor: int
) -> Decision:
    """Draw `n` factors whose product is the extent.
    Those from `partition_pos` on multiply to a multiple of `innerpart_factor`, if the extent is one. Otherwise all
    iterations are in the first factor."""
    extent = _extent(func, loop)
    _check_partition(loop, n, partition_pos, innerpart_factor)
    if extent % innerpart_factor:
        return (extent, *[1] * (n - 1))
    factors = [1] * n
    factors[partition_pos] = innerpart_factor
    rest = extent // innerpart_factor
    for position in range(n - 1):
        choices = divisors(rest)
        drawn = choices[int(rng.integers(len(choices)))]
        factors[position] *= drawn
        rest //= drawn
    factors[-1] *= rest
    return tuple(factors)


def _check_partition(loop: n.Var, count: int, position: int, factor: int) -> None:
    _check_shape(loop, count, 1)
    if not 0 <= position < count or factor < 1:
        raise Illegal(
            f"partition_pos is from 0 to {count - 1} and innerpart_factor positive, got {position} and {factor}", loop
        )


@primitive(
    "loop",
    attrs={"n": (int,), "partition_pos": (int,), "innerpart_factor": (int,)},
    outputs="int*",
    draw=draw_partitioned_tile,
)
def sample_partitioned_tile(
    func: n.PrimFunc, loop: n.Var, n: int, partition_pos: int, innerpart_factor: int, decision: Decision
) -> StepEffect:
    """Sample `n` factors of a loop, whose product is its extent; the decision is the factors.

    Those from `partition_pos` on hold a multiple of `innerpart_factor` iterations.

        for i in 512: ...   v0, v1, v2 = sample_partitioned_tile(i, 3, 1, 8, decision=[16, 4, 8])   →   16, 4, 8
    """
    _check_partition(loop, n, partition_pos, innerpart_factor)
    extent = _extent(func, loop)
    factors = decision if isinstance(decision, tuple) else ()
    if len(factors) != n or any(f < 1 for f in factors) or math.prod(factors) != extent:
        raise Illegal(f"the decision {decision!r} is not {n} factors of {extent}, loop {loop.name!r}", loop)
    if extent % innerpart_factor == 0 and math.prod(factors[partition_pos:]) % innerpart_factor:
        raise Illegal(f"the decision {decision!r} has no {innerpart_factor} iterations in its last factors", loop)
    return StepEffect(func, factors)


def draw_tile(rng: np.random.Generator, func: n.PrimFunc, loop: n.Var, n: int, max_innermost_factor: int) -> Decision:
    """Draw the `n` - 1 inner factors, none larger than needed.
    Each is a divisor of the extent or a handy size."""
    _check_shape(loop, n, max_innermost_factor)
    rest = _extent(func, loop)
    factors: list[int] = []
    for position in range(n - 1):
        limit = min(rest, max_innermost_factor) if position == 0 else rest
        choices = sorted({d for d in (*divisors(rest), *_LADDER) if d <= limit})
        factors.insert(0, choices[int(rng.integers(len(choices)))])
        rest = -(-rest // factors[0])
    return tuple(factors)


@primitive("loop", attrs={"n": (int,), "max_innermost_factor": (int,)}, outputs="int*", draw=draw_tile)
def sample_tile(func: n.PrimFunc, loop: n.Var, n: int, max_innermost_factor: int, decision: Decision) -> StepEffect:
    """`n` factors of a loop that cover its extent and need not divide it.

    The decision is all but the first, which is as large as needed. Meant for extents with few divisors, such as 509.

        for i in 509: ...   v0, v1, v2 = sample_tile(i, 3, 16, decision=[8, 6])   →   11, 8, 6
    """
    _check_shape(loop, n, max_innermost_factor)
    extent = _extent(func, loop)
    factors = decision if isinstance(decision, tuple) else None
    if factors is None or len(factors) != n - 1 or any(not 1 <= f <= extent for f in factors):
        raise Illegal(f"the decision {decision!r} is not {n - 1} sizes of at most {extent}, loop {loop.name!r}", loop)
    return StepEffect(func, (-(-extent // math.prod(factors)), *factors))


def divisors(value: int) -> list[int]:
    """The divisors of a positive integer, in order."""
    small = [d for d in range(1, math.isqrt(value) + 1) if value % d == 0]
    return small + [value // d for d in reversed(small) if d * d != value]


# ---------------------------------------------------------------------------------- locations


def compute_locations(func: n.PrimFunc, block: str) -> list[n.Var]:
    """The loops that compute_at can move `block` to, outermost first; none when nothing reads its result."""
    me, scope = scope_around(func, block)
    readers = [m for m in scope.members if m is not me and any(m.reads(w.buffer) for w in me.block.writes)]
    if not readers:
        return []
    shared = common_prefix([m.path for m in readers])
    loops = [s.loop_var for s in readers[0].path[len(scope.path) : shared] if isinstance(s, n.For)]
    return [loop for loop in loops if _can_move(func, block, loop)]


def _can_move(func: n.PrimFunc, block: str, loop: n.Var) -> bool:
    try:
        compute_at(func, block, loop, preserve_unit_loops=False, index=-1)
    except Illegal:
        return False
    return True


def draw_compute_location(rng: np.random.Generator, func: n.PrimFunc, block: str) -> Decision:
    """One of the loops a block can move to, or -1 to leave it where it is."""
    return int(rng.integers(-1, len(compute_locations(func, block))))


@primitive("block", outputs="loop", draw=draw_compute_location)
def sample_compute_location(func: n.PrimFunc, block: str, decision: Decision) -> StepEffect:
    """Sample a loop that compute_at can move a block to.

    The decision is its position among those loops, outermost first, or -1 (leave the block where it stands), -2 (inline
    it). compute_at and reverse_compute_at then do just that.

        l0 = sample_compute_location(B, decision=0)   →   l0 is loop i, the outermost around block C, which reads B
    """
    if decision in (-1, -2):
        return StepEffect(func, (ROOT_LOCATION if decision == -1 else INLINE_LOCATION,))
    loops = compute_locations(func, block)
    if not isinstance(decision, int) or not 0 <= decision < len(loops):
        raise Illegal(
            f"the decision {decision!r} is no position among the {len(loops)} loops for block {block!r}",
            block,
            hint="-1 leaves the block where it is, -2 inlines it",
        )
    return StepEffect(func, (loops[decision],))
