"""Place the arrays that a function makes for itself in one piece of memory.

It is used again when an array is dead.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from compiler.relax.nodes.dims import int64, variables
from compiler.relax.vm_codegen.native.values import NativeStorage
from compiler.runtime.core.host import ALIGNMENT
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr


@dataclass(frozen=True, slots=True)
class Arena:
    """The size of a function's memory, and the numbers to be computed for it first, in order."""

    nbytes: PrimExpr
    numbers: tuple[tuple[n.Var, PrimExpr], ...] = ()


def plan(storages: Iterable[NativeStorage]) -> Arena:
    """Give each storage its offset. Storages that are in use at the same time do not overlap."""
    roots = dict.fromkeys(storage.root for storage in storages)
    used = sorted((s for s in roots if s.place is None and s.first >= 0), key=lambda storage: storage.first)
    fixed = [(storage, storage.nbytes.value) for storage in used if isinstance(storage.nbytes, n.IntImm)]
    end = _plan_fixed(fixed)
    return _plan_others([storage for storage in used if not isinstance(storage.nbytes, n.IntImm)], end)


def _plan_fixed(storages: Sequence[tuple[NativeStorage, int]]) -> int:
    """The lowest place that is free for as long as the storage lives. Returns the end of them all."""
    living: list[tuple[int, int, int]] = []  # (begin, end, last use), by begin
    highest = 0
    for storage, size in storages:
        living = [part for part in living if part[2] >= storage.first]
        begin = 0
        for low, high, _ in living:
            if low - begin >= size:
                break
            begin = max(begin, _aligned(high))
        storage.offset = int64(begin)
        insort(living, (begin, begin + size, storage.last))
        highest = max(highest, begin + size)
    return _aligned(highest)


def _plan_others(storages: Sequence[NativeStorage], start: int) -> Arena:
    """Place storages whose size only the call tells behind `start`. Those of one size take turns."""
    # by size: an offset, and the last use of who is there
    places: dict[tuple[str, frozenset[n.Var]], list[tuple[PrimExpr, list[int]]]] = {}
    numbers: list[tuple[n.Var, PrimExpr]] = []
    end: PrimExpr = int64(start)
    for storage in storages:
        same = places.setdefault((repr(storage.nbytes), frozenset(variables(storage.nbytes))), [])
        for offset, last in same:
            if last[0] < storage.first:
                storage.offset, last[0] = offset, storage.last
                break
        else:
            storage.offset = end
            same.append((end, [storage.last]))
            rounded = ops.mul(ops.floordiv(ops.add(storage.nbytes, ALIGNMENT - 1), ALIGNMENT), ALIGNMENT)
            following = n.Var(f"offset_{len(numbers)}", "int64")
            numbers.append((following, ops.add(end, rounded)))
            end = following
    return Arena(end, tuple(numbers))


def _aligned(offset: int) -> int:
    return -(-offset // ALIGNMENT) * ALIGNMENT
