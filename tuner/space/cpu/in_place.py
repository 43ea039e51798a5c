"""Operands that are computed at their use: weights of 4 bits, slices of a cache.

    for k, n:  B[k, n] = f(W[k, n])        →        for i, n, k:  C[i, n] += A[i, k] · f(W[k, n])
    for i, n, k:  C[i, n] += A[i, k] · B[k, n]

With few rows each element of B is used about once. Written to memory, it would have to come back from there. In a
register tile it is computed once for all rows of the tile. W then lies along the vectors, and may be packed ahead.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from compiler.dtype import parse_dtype
from compiler.errors import ScheduleError
from compiler.ir.visit import walk
from compiler.schedule.core.schedule import Schedule
from compiler.tir import nodes as n
from compiler.tir.nodes import PrimFunc
from tuner.space.analysis import BlockAccess, BlockInfo, blocks_of, consumers
from tuner.space.cpu.elementwise import reads_by_data
from tuner.space.cpu.roles import Roles, assign_roles

_MOST_ROWS = 8  # that one register tile can hold
_CHEAP = ("bitwise_and", "bitwise_or", "bitwise_xor", "shift_left", "shift_right")


@dataclass(frozen=True)
class View:
    """A function as its contraction sees it once the blocks called `inlined` are part of it."""

    func: PrimFunc
    main: BlockInfo
    roles: Roles
    inlined: tuple[str, ...] = ()

    def inline(self, sch: Schedule) -> None:
        """Put those blocks into the ones that read them."""
        for name in self.inlined:
            sch.compute_inline(sch.get_block(name))


def computed_in_place(func: PrimFunc, main: BlockInfo, roles: Roles) -> View:
    """Return the view of `func` whose contraction `main` computes its vector operand itself, if that pays.
    Otherwise it is the unchanged function."""
    plain = View(func, main, roles)
    rows = 1 if roles.m is None else roles.m.extent
    if roles.vector_operand is None or rows > _MOST_ROWS:
        return plain
    sch = Schedule(func)
    inlined: list[str] = []
    outputs = set(func.buffer_map.values())
    operand = main.inputs[roles.vector_operand].buffer
    while True:
        blocks = blocks_of(sch.func)
        maker = next((b for b in blocks if b.output.buffer is operand), None)
        own = next(b for b in blocks if b.name == main.name)
        if maker is None or operand in outputs or not _pays(sch, maker, own, blocks, rows):
            break
        try:
            sch.compute_inline(sch.get_block(maker.name))
        except ScheduleError:
            break
        inlined.append(maker.name)
        operand = maker.inputs[0].buffer
    if not inlined:
        return plain
    found = next(b for b in blocks_of(sch.func) if b.name == main.name)
    own_roles = assign_roles(found)
    return (
        plain
        if own_roles is None or not _along_memory(found, own_roles)
        else View(sch.func, found, own_roles, tuple(inlined))
    )


def unpacked_block(func: PrimFunc, main: BlockInfo, roles: Roles) -> BlockInfo | None:
    """Return the block that makes the vector operand of many rows from narrower numbers, at little cost.
    Panels of the operand can be filled straight from those."""
    if roles.vector_operand is None or roles.m is None:
        return None
    blocks = blocks_of(func)
    operand = main.inputs[roles.vector_operand].buffer
    maker = next((b for b in blocks if b.output.buffer is operand), None)
    return maker if maker is not None and _widens(Schedule(func), maker, main, blocks) else None


def moved_operands(sch: Schedule, main: BlockInfo, roles: Roles, packed: bool) -> list[str]:
    """The blocks that only move operands of `main` to where they are read, row by row, as reshapes do.
    Once `main` is tiled it can read those operands, or pack them, from where they were. A vector operand that is not
    packed stays moved if its axes are in another order: its rows may be neighbours only then."""
    vector = None if roles.vector_operand is None else main.inputs[roles.vector_operand].buffer
    found = []
    for maker in movers(sch, main):
        made, read = maker.output, maker.inputs[0]
        near = packed or made.buffer is not vector or (_in_order(made) and _in_order(read))
        if near and keeps_rows(maker):
            found.append(maker.name)
    return found


def movers(sch: Schedule, main: BlockInfo) -> list[BlockInfo]:
    """The blocks that only move operands of `main`, for it alone."""
    blocks, outputs = blocks_of(sch.func), set(sch.func.buffer_map.values())
    alone = [b for b in blocks if b.output.buffer not in outputs and _makes_alone(sch, b, main, blocks)]
    return [maker for maker in alone if _moves(sch, maker)]


def keeps_rows(maker: BlockInfo) -> bool:
    """Whether what is read along memory is written along memory."""
    return maker.axes[-1].position in maker.output.innermost & maker.inputs[0].innermost


def _in_order(access: BlockAccess) -> bool:
    """Whether outer axes index outer dimensions."""
    dims = [dim for dim in access.axes_by_dim if dim]
    return all(max(outer) < min(inner) for outer, inner in pairwise(dims))


def _widens(sch: Schedule, maker: BlockInfo, main: BlockInfo, blocks: tuple[BlockInfo, ...]) -> bool:
    """Whether `maker` widens an operand of `main` alone, element by element at little cost."""
    if not _makes_alone(sch, maker, main, blocks):
        return False
    calls = [node for node in walk(sch.get(sch.get_block(maker.name)).body) if isinstance(node, n.Call)]
    cheap = all(getattr(call.op, "name", "").removeprefix("tir.") in _CHEAP for call in calls)
    made, read = (parse_dtype(access.buffer.dtype).bits for access in (maker.output, maker.inputs[0]))
    return cheap and read < made


def _pays(sch: Schedule, maker: BlockInfo, main: BlockInfo, blocks: tuple[BlockInfo, ...], rows: int) -> bool:
    """Whether `maker` makes an operand of `main` alone, element by element.
    For several rows it must be unchanged, or made of narrower numbers at little cost."""
    if not _makes_alone(sch, maker, main, blocks):
        return False
    return rows == 1 or _moves(sch, maker) or _widens(sch, maker, main, blocks)


def _moves(sch: Schedule, maker: BlockInfo) -> bool:
    """Whether `maker` changes no element."""
    body = sch.get(sch.get_block(maker.name)).body
    return isinstance(body, n.BufferStore) and isinstance(body.value, n.BufferLoad)


def _makes_alone(sch: Schedule, maker: BlockInfo, main: BlockInfo, blocks: tuple[BlockInfo, ...]) -> bool:
    free = maker.injective and not maker.conditional and bool(maker.inputs)
    return free and consumers(maker, blocks) == (main,) and not reads_by_data(sch, sch.get_block(maker.name))


def _along_memory(info: BlockInfo, roles: Roles) -> bool:
    """Whether vectors of all that lies along them are neighbours in memory."""
    v = roles.v.position
    return all(v in i.innermost for i in info.inputs if v in i.axes)
