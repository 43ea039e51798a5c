"""Places for pieces of memory that are not all alive at the same time.

Pieces are placed one after the other, each at the lowest place that is free while it is alive. The order decides how
much memory that takes. A few orders are tried. The best one is then changed step by step, as long as that pays.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

ENOUGH = 1.01
"""An arena of at most so many times the lower bound is not searched for further."""
STEPS = 200_000
"""How many pieces a search may lay, over all orders it tries."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Memory of `size` bytes that is in use from the time `begin` to the time `end`, both included.

    `branches` are the branches of conditions around the place where it begins, outermost first: the number of the
    condition, and which of its branches it is. Pieces in different branches of one condition never live together.
    """

    size: int
    begin: int
    end: int
    branches: tuple[tuple[int, bool], ...] = ()

    def excludes(self, other: Piece) -> bool:
        """Whether the two begin in different branches of one condition."""
        for mine, theirs in zip(self.branches, other.branches):
            if mine != theirs:
                return mine[0] == theirs[0]
        return False


@dataclass(frozen=True, slots=True)
class ArenaLayout:
    """Where each piece begins, in the order they were given, and how much memory that takes."""

    offsets: tuple[int, ...]
    size: int


def lay_out(pieces: Sequence[Piece]) -> ArenaLayout:
    """Lay the pieces so that those alive together do not overlap, in as little memory as a search finds.

    Sizes are multiples of the alignment already; so are offsets then.
    """
    neighbours = _neighbours(pieces)
    enough = most_alive(pieces) * ENOUGH
    orders: list[Callable[[int], tuple[int, int]]] = [
        lambda i: (-pieces[i].size, pieces[i].begin),
        lambda i: (-pieces[i].size * (pieces[i].end - pieces[i].begin + 1), pieces[i].begin),
        lambda i: (pieces[i].begin - pieces[i].end, -pieces[i].size),
        lambda i: (pieces[i].begin, -pieces[i].size),
        lambda i: (-pieces[i].end, -pieces[i].size),
    ]
    best, best_order = ArenaLayout((), -1), list[int]()
    for key in orders:
        order = sorted(range(len(pieces)), key=key)
        found = _laid(pieces, neighbours, order)
        if best.size < 0 or found.size < best.size:
            best, best_order = found, order
        if best.size <= enough:
            return best
    return _searched(pieces, neighbours, best, best_order, enough)


def _searched(
    pieces: Sequence[Piece], neighbours: Sequence[Sequence[int]], best: ArenaLayout, order: list[int], enough: float
) -> ArenaLayout:
    """Search for a smaller arena by placing earlier the pieces that stick out."""
    rng = random.Random(len(pieces))
    for _ in range(STEPS // max(len(pieces), 1)):
        if best.size <= enough:
            break
        out = [i for i, offset in enumerate(best.offsets) if offset + pieces[i].size == best.size]
        moved = rng.choice(out)
        if rng.random() < 0.3 and neighbours[moved]:
            moved = rng.choice(neighbours[moved])
        position = order.index(moved)
        target = 0 if rng.random() < 0.3 else rng.randrange(position + 1)
        trial = [*order[:position], *order[position + 1 :]]
        trial.insert(target, moved)
        found = _laid(pieces, neighbours, trial)
        if found.size <= best.size:
            best, order = found, trial
    return best


def _laid(pieces: Sequence[Piece], neighbours: Sequence[Sequence[int]], order: Sequence[int]) -> ArenaLayout:
    """Each piece in this order at the lowest place that is free while it is alive."""
    offsets = [-1] * len(pieces)
    total = 0
    for index in order:
        size = pieces[index].size
        place = 0
        taken = sorted([(offsets[i], pieces[i].size) for i in neighbours[index] if offsets[i] >= 0])
        for begin, length in taken:
            if begin - place >= size:
                break
            place = max(place, begin + length)
        offsets[index] = place
        total = max(total, place + size)
    return ArenaLayout(tuple(offsets), total)


def _neighbours(pieces: Sequence[Piece]) -> list[list[int]]:
    """For each piece those that are alive at some time when it is."""
    found: list[list[int]] = [[] for _ in pieces]
    alive: list[int] = []
    for index in sorted(range(len(pieces)), key=lambda i: pieces[i].begin):
        piece = pieces[index]
        alive = [i for i in alive if pieces[i].end >= piece.begin]
        for other in alive:
            if not piece.excludes(pieces[other]):
                found[index].append(other)
                found[other].append(index)
        alive.append(index)
    return found


def most_alive(pieces: Sequence[Piece]) -> int:
    """The largest sum of sizes of pieces that are alive at one time: no arena is smaller."""
    most = 0
    alive: list[Piece] = []
    for piece in sorted(pieces, key=lambda p: p.begin):
        alive = [other for other in alive if other.end >= piece.begin]
        alive.append(piece)
        most = max(most, _sum([other for other in alive if not other.excludes(piece)], 0))
    return most


def _sum(pieces: Sequence[Piece], depth: int) -> int:
    """Sum sizes. Of pieces in different branches of one condition, the larger branch counts."""
    total = 0
    inside: dict[int, tuple[list[Piece], list[Piece]]] = {}
    for piece in pieces:
        if len(piece.branches) <= depth:
            total += piece.size
        else:
            condition, branch = piece.branches[depth]
            inside.setdefault(condition, ([], []))[branch].append(piece)
    for sides in inside.values():
        total += max(_sum(side, depth + 1) for side in sides)
    return total
