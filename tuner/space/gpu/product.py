"""Any contraction as a product of matrices: C[b, m, n] += A[b, k, m] · B[b, k, n].

A contraction sums a product of two operands. Its axes fall into four groups: those of the sum (k), and, of the others,
those that only the first operand has (m), only the second (n), or both (b). Fused, each group is one index:

    conv2d[f, y, x] += data[c, y + r, x + s] · w[f, c, r, s]

    m = f,  n = y·W + x,  k = (c·R + r)·S + s
    B[k, n] = data[k // RS, n // W + k // S % R, n % W + k % S]        made where it is read: never in memory

A block of threads fills tiles of shared memory, and computes these copies of operands there (implicit GEMM; S.
Chetlur et al., "cuDNN: Efficient Primitives for Deep Learning", 2014).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from compiler.errors import ScheduleError
from compiler.schedule.core.schedule import BlockRV, Schedule
from tuner.space.analysis import BlockAccess, BlockAxis, BlockInfo


@dataclass(frozen=True, slots=True)
class Operand:
    """One of the two factors.
    `along`: the group whose neighbours are neighbours in memory ("k", or its own), "" for none. `plain`: that
    group's last axis is the buffer's last index, unchanged, so vectors can be loaded."""

    access: BlockAccess
    along: str
    plain: bool


@dataclass(frozen=True, slots=True)
class Product:
    """The groups of a contraction's axes, and its operands. n holds the output's innermost axis."""

    info: BlockInfo
    b: tuple[BlockAxis, ...]
    m: tuple[BlockAxis, ...]
    n: tuple[BlockAxis, ...]
    k: tuple[BlockAxis, ...]
    left: Operand
    right: Operand

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """How many b, m, n and k there are."""
        batch, rows, columns, depth = (math.prod(a.extent for a in group) for group in (self.b, self.m, self.n, self.k))
        return batch, rows, columns, depth


@dataclass(frozen=True, slots=True)
class Blocks:
    """The blocks of a function in the form above.
    One makes the operands, one is the product itself, and one writes its results to their places."""

    left: BlockRV
    right: BlockRV
    product: BlockRV
    result: BlockRV


def as_product(info: BlockInfo) -> Product | None:
    """Return the groups of a contraction.
    None for a block that is no product of two operands used more than once each."""
    if len(info.inputs) != 2 or not info.reduced or info.conditional:
        return None
    first, second = info.inputs
    last = next((a for a in reversed(info.spatial) if info.output.innermost == {a.position}), None)
    if last is None or any(not ({a.position} & (first.axes | second.axes)) for a in info.axes):
        return None
    if last.position in first.axes:
        first, second = second, first
    if last.position in first.axes:  # in both: no operand is used again along the output's rows
        return None
    if any(a.position not in first.axes or a.position not in second.axes for a in info.reduced):
        return None
    left_only = tuple(a for a in info.spatial if a.position not in second.axes)
    right_only = tuple(a for a in info.spatial if a.position not in first.axes)
    both = tuple(a for a in info.spatial if a not in left_only and a not in right_only)
    if math.prod(a.extent for a in left_only) < 2:
        return None
    return Product(
        info,
        both,
        left_only,
        right_only,
        info.reduced,
        _operand(first, left_only, info),
        _operand(second, right_only, info),
    )


def _operand(access: BlockAccess, own: tuple[BlockAxis, ...], info: BlockInfo) -> Operand:
    steps = dict(access.steps)
    for name, group in (("own", own), ("k", info.reduced)):
        near = [a for a in group if steps.get(a.position) == 1]
        if near:
            plain = near[-1] is group[-1] and access.innermost == {near[-1].position}
            return Operand(access, name, plain)
    return Operand(access, "", False)


def canonical(sch: Schedule, product: Product) -> Blocks | None:
    """Bring the contraction into the form above.
    None if that is not legal; `sch` is then of no more use."""
    info = product.info
    block = sch.get_block(info.name)
    groups = {"b": product.b, "m": product.m, "n": product.n, "k": product.k}
    letters = "bmnk" if product.b else "mnk"
    try:
        made: list[BlockRV] = []
        for operand, order in ((product.left, "bkm"), (product.right, "bkn")):
            copy = sch.reindex(block, ("read", sch.read_index(block, operand.access.buffer.name)))
            axes = [a for a in info.axes if a.position in operand.access.axes]
            index_map = _fused(axes, [groups[x] for x in order if x in letters])
            at = sch.read_index(block, sch.get(copy).writes[0].buffer.name)
            sch.transform_layout(block, ("read", at), index_map)
            sch.transform_block_layout(copy, index_map)
            made.append(copy)
        result = sch.reindex(block, ("write", 0))
        spatial = _fused(list(info.spatial), [groups[x] for x in letters if x != "k"])
        sch.transform_layout(block, ("write", 0), spatial)
        sch.transform_block_layout(result, spatial)
        sch.transform_block_layout(block, _fused(list(info.axes), [groups[x] for x in letters]))
    except ScheduleError:
        return None
    return Blocks(made[0], made[1], block, result)


def output_map(product: Product) -> str:
    """The map from the output's axes, in order, to b, m and n."""
    return _fused(list(product.info.spatial), [g for g in (product.b, product.m, product.n) if g])


def _fused(axes: Sequence[BlockAxis], groups: Sequence[tuple[BlockAxis, ...]]) -> str:
    """The map of `axes` to one index a group."""
    names = ", ".join(f"a{a.position}" for a in axes)
    return f"lambda {names}: ({', '.join(_one(group) for group in groups)},)"


def _one(group: tuple[BlockAxis, ...]) -> str:
    text = f"a{group[0].position}" if group else "0"
    for axis in group[1:]:
        text = f"({text}) * {axis.extent} + a{axis.position}"
    return text
