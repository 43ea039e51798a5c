"""How a buffer is kept, and what is said of it: set_scope, storage_align, and the unsafe ones."""

from __future__ import annotations

from compiler.dtype import holds_all_of, lanes_of, parse_dtype, with_lanes
from compiler.ir.base import Node
from compiler.ir.visit import replace, transform, walk
from compiler.schedule.analysis import tree
from compiler.schedule.analysis.dataflow import is_parameter, swap_buffers
from compiler.schedule.core.state import Illegal, StepEffect, block_path, realize_at, replaced
from compiler.schedule.core.step import primitive
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import Stmt

BUFFER_DIM_ALIGN = "buffer_dim_align"  # a block's annotation, and the attribute that stands for it once it dissolved


def check_scope(scope: str, name: str) -> None:
    """Raise Illegal when there is no such memory.
    A tag may follow a dot ("shared.dyn", "wmma.accumulator")."""
    if scope.partition(".")[0] not in ("global", "local", "shared", "warp", "wmma", "m16n8k8"):
        raise Illegal(f"there is no memory {scope!r}", name, hint="use global, local, shared or warp")


@primitive("block", attrs={"buffer_index": (int,), "storage_scope": (str,)})
def set_scope(func: n.PrimFunc, block: str, buffer_index: int, storage_scope: str) -> StepEffect:
    """Keep the `buffer_index`-th buffer that a block writes in memory `storage_scope`.

    Arguments of the function stay where they are.

        B = T.alloc_buffer((64, 64))      →   B = T.alloc_buffer((64, 64), scope="local")
    """
    realize = realize_at(block_path(func, block))
    check_scope(storage_scope, block)
    buffer = written_buffer(func, realize.block, buffer_index)
    if buffer.scope == storage_scope:
        return StepEffect(func)
    new = replace(buffer, data=n.Var(buffer.data.name, "handle"), scope=storage_scope)
    body = swap_buffers(func.body, {buffer: new})
    assert isinstance(body, Stmt)
    return StepEffect(func.with_body(body))


@primitive("block", attrs={"buffer_index": (int,), "dtype": (str,)})
def unsafe_set_dtype(func: n.PrimFunc, block: str, buffer_index: int, dtype: str) -> StepEffect:
    """Keep the `buffer_index`-th buffer that a block writes in `dtype`.

    Stored values are cast to it, and loaded values are cast back. (A loaded value that is cast further is not cast
    back, if `dtype` holds every number of its old dtype.) Unsafe: the result changes if `dtype` has fewer digits.
    Arguments of the function keep theirs.

        B[vi] = A[vi] * 2.0               →   B[vi] = T.Cast("float16", A[vi] * 2.0)
        C[vi] = B[vi] + 1.0                   C[vi] = T.Cast("float32", B[vi]) + 1.0
    """
    buffer = written_buffer(func, realize_at(block_path(func, block)).block, buffer_index)
    parsed = parse_dtype(dtype)
    if parsed.lanes != 1 or parsed.code == "handle":
        raise Illegal(f"elements of a buffer are numbers, one each; {dtype!r} is not", block)
    if any(node is buffer.data for node in walk(func.body)):
        raise Illegal(f"the address of {buffer.name!r} is taken: what is there may not change its dtype", block)
    if buffer.dtype == dtype:
        return StepEffect(func)
    new = replace(buffer, data=n.Var(buffer.data.name, "handle"), dtype=dtype)

    wider = holds_all_of(dtype, buffer.dtype)

    def converted(node: Node) -> Node | None:
        match node:
            case n.Cast(value=n.Cast(value=n.BufferLoad(buffer=read) as load)) if wider and read is new:
                return ops.cast(node.dtype, load)
        if isinstance(node, n.BufferStore) and node.buffer is buffer:
            value = ops.cast(with_lanes(dtype, lanes_of(node.value.dtype)), node.value)
            return n.BufferStore(new, value, node.indices, node.predicate, node.span)
        if isinstance(node, n.BufferLoad) and node.buffer is buffer:
            return ops.cast(node.dtype, n.BufferLoad(new, node.indices, node.predicate))
        return None

    body = swap_buffers(transform(func.body, post=converted), {buffer: new})
    assert isinstance(body, Stmt)
    return StepEffect(func.with_body(body))


@primitive("block", attrs={"buffer_index": (int,), "axis": (int,), "factor": (int,), "offset": (int,)})
def storage_align(func: n.PrimFunc, block: str, buffer_index: int, axis: int, factor: int, offset: int) -> StepEffect:
    """Align dimension `axis` of the `buffer_index`-th buffer that a block writes.

    A negative axis is counted from the end. Neighbours along it lie a multiple of `factor` plus `offset` elements
    apart, the smallest that holds the elements between. The last call for a dimension counts. Lowering lays the buffer
    out after it has shrunk it to the part in use.

        block B: B[vi, vj] = ...          →   block B: T.block_attr({"buffer_dim_align": ((0, 0, 8, 1),)})
        B = T.alloc_buffer((21, 18))          B[vi, vj] = ...   lowered, B has strides (25, 1)
    """
    path = block_path(func, block)
    realize = realize_at(path)
    buffer = written_buffer(func, realize.block, buffer_index)
    rank = len(buffer.shape)
    if not -rank <= axis < rank:
        raise Illegal(f"buffer {buffer.name!r} has {rank} dimensions, there is no axis {axis}", block)
    if factor < 1:
        raise Illegal(f"the factor must be positive, got {factor}", block)
    if not 0 <= offset < factor:
        raise Illegal(f"the offset must be from 0 to {factor - 1}, less than the factor; got {offset}", block)
    dim = axis % rank
    notes = realize.block.annotations
    kept = tuple(wish for wish in notes.get(BUFFER_DIM_ALIGN, ()) if tuple(wish[:2]) != (buffer_index, dim))
    wishes = (*kept, (buffer_index, dim, factor, offset))
    new = replace(realize.block, annotations={**notes, BUFFER_DIM_ALIGN: wishes})
    return StepEffect(replaced(func, path, tree.with_block(realize, new)))


def written_buffer(func: n.PrimFunc, block: n.Block, index: int) -> n.Buffer:
    """The `index`-th buffer that `block` writes. Raises Illegal for one that the function was given."""
    name = block.name_hint
    if not 0 <= index < len(block.writes):
        raise Illegal(f"block {name!r} writes {len(block.writes)} buffers, it has no number {index}", name)
    buffer = block.writes[index].buffer
    if is_parameter(func, buffer):
        raise Illegal(f"buffer {buffer.name!r} is an argument of the function", name, hint="use cache_write")
    return buffer


@primitive("block", attrs={"buf_type": (str,), "buf_index_array": (tuple,)})
def unsafe_hide_buffer_access(
    func: n.PrimFunc, block: str, buf_type: str, buf_index_array: tuple[int, ...]
) -> StepEffect:
    """Remove buffers, by their positions, from a block's list of reads ("read") or writes ("write").
    `buf_type` says which. Unsafe: later steps trust these lists, and do not see that the block uses the buffers.

        block C: reads A[vi], B[vi]       →   block C: reads A[vi]      ("read", [1])
    """
    path = block_path(func, block)
    realize = realize_at(path)
    if buf_type not in ("read", "write"):
        raise Illegal(f"buf_type is 'read' or 'write', got {buf_type[:40]!r}", block)
    regions = realize.block.reads if buf_type == "read" else realize.block.writes
    absent = [at for at in buf_index_array if type(at) is not int or not 0 <= at < len(regions)]
    if absent:
        raise Illegal(f"block {block!r} {buf_type}s {len(regions)} buffers, it has no number {absent[0]}", block)
    kept = tuple(region for at, region in enumerate(regions) if at not in buf_index_array)
    new = replace(realize.block, reads=kept) if buf_type == "read" else replace(realize.block, writes=kept)
    return StepEffect(replaced(func, path, tree.with_block(realize, new)))
