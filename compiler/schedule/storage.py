"""Where a buffer lives: set_scope."""

from __future__ import annotations

from compiler.schedule.dataflow import is_parameter, swap_buffers
from compiler.schedule.state import Effect, Illegal, block_path, realize_at
from compiler.schedule.step import primitive
from compiler.tir import nodes as n
from compiler.tir.nodes import Stmt
from compiler.tir.visit import replace


def check_scope(scope: str, name: str) -> None:
    """Raises Illegal when there is no such memory; a tag may follow a dot ("shared.dyn", "wmma.accumulator")."""
    if scope.partition(".")[0] not in ("global", "local", "shared", "warp", "wmma", "m16n8k8"):
        raise Illegal(f"there is no memory {scope!r}", name, hint="use global, local, shared or warp")


@primitive("block", attrs={"buffer_index": (int,), "storage_scope": (str,)})
def set_scope(func: n.PrimFunc, block: str, buffer_index: int, storage_scope: str) -> Effect:
    """Keep the `buffer_index`-th buffer that a block writes in memory `storage_scope`. Arguments of the function
    stay where they are.

        B = T.alloc_buffer((64, 64))      →   B = T.alloc_buffer((64, 64), scope="local")
    """
    realize = realize_at(block_path(func, block))
    check_scope(storage_scope, block)
    writes = realize.block.writes
    if not 0 <= buffer_index < len(writes):
        raise Illegal(f"block {block!r} writes {len(writes)} buffers, it has no number {buffer_index}", block)
    buffer = writes[buffer_index].buffer
    if is_parameter(func, buffer):
        raise Illegal(f"buffer {buffer.name!r} is an argument of the function", block, hint="use cache_write")
    if buffer.scope == storage_scope:
        return Effect(func)
    new = replace(buffer, data=n.Var(buffer.data.name, "handle"), scope=storage_scope)
    body = swap_buffers(func.body, {buffer: new})
    assert isinstance(body, Stmt)
    return Effect(func.with_body(body))
