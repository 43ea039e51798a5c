"""The axes of a block: reorder_block_iter_var."""

from __future__ import annotations

from compiler.schedule.state import Effect, Illegal, block_path, realize_at, replaced
from compiler.schedule.step import primitive
from compiler.tir import nodes as n
from compiler.tir.visit import replace


@primitive("block", attrs={"new_order": (tuple,)})
def reorder_block_iter_var(func: n.PrimFunc, block: str, new_order: tuple[int, ...]) -> Effect:
    """Put the axes of a block in another order: its first is then the one that was number `new_order[0]`. The loops
    stay as they are.

        block C: vi = i, vj = j, vk = k   →   block C: vj = j, vk = k, vi = i        new_order = [1, 2, 0]
    """
    path = block_path(func, block)
    realize = realize_at(path)
    axes = realize.block.iter_vars
    if any(type(p) is not int for p in new_order) or sorted(new_order) != list(range(len(axes))):
        raise Illegal(f"{list(new_order)} is no order of the {len(axes)} axes of block {block!r}", block)
    ordered = replace(realize.block, iter_vars=tuple(axes[p] for p in new_order))
    values = tuple(realize.iter_values[p] for p in new_order)
    return Effect(replaced(func, path, n.BlockRealize(values, realize.predicate, ordered, realize.span)))
