"""How a block's loops and axes belong together."""

from __future__ import annotations

from compiler.ir.visit import walk
from compiler.schedule.core.schedule import BlockRV, LoopRV, Schedule
from compiler.tir import nodes as n
from compiler.tir.visit import free_vars


def realize_of(sch: Schedule, block: BlockRV) -> n.BlockRealize:
    """Where the block stands, with the values of its axes."""
    found = sch.get(block)
    return next(e for e in walk(sch.func.body) if isinstance(e, n.BlockRealize) and e.block is found)


def loop_kinds(sch: Schedule, block: BlockRV, loop: LoopRV) -> set[n.IterType]:
    """The kinds of the block's axes that a loop moves."""
    realize, var = realize_of(sch, block), sch.get(loop).loop_var
    bound = zip(realize.block.iter_vars, realize.iter_values)
    return {iv.iter_type for iv, value in bound if any(v is var for v in free_vars(value))}


def is_spatial(kinds: set[n.IterType]) -> bool:
    """Whether a loop that moves axes of these kinds (or none) moves no other than spatial ones."""
    return kinds <= {n.IterType.DATA_PAR}
