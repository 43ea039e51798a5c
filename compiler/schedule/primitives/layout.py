"""How the elements of a buffer are laid out: transform_layout."""

from __future__ import annotations

from typing import Any

from compiler.arith.analyzer import Analyzer
from compiler.arith.index_map import IndexMap
from compiler.ir.base import Node
from compiler.ir.visit import map_children, replace, walk
from compiler.schedule.analysis import tree
from compiler.schedule.analysis.dataflow import (
    Member,
    fresh_block_name,
    is_parameter,
    own_nest,
    scope_around,
    with_regions,
)
from compiler.schedule.analysis.expr import relocated
from compiler.schedule.analysis.injective import undetermined
from compiler.schedule.analysis.placement import is_data
from compiler.schedule.core.map_text import PadValue, read_map, read_pad
from compiler.schedule.core.state import Illegal, StepEffect, block_path, realize_at, replaced
from compiler.schedule.core.step import primitive
from compiler.schedule.primitives.block_axes import laid_out, loops_by_axis, nest_over_axes
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.intrin.intrin import if_then_else
from compiler.tir.nodes import PrimExpr, Stmt
from compiler.tir.visit import seq


def _spelled(inputs: list[str], attrs: dict[str, Any]) -> str:
    buffer = (attrs["buffer_index_type"], attrs["buffer_index"])
    options = [f"pad_value={attrs['pad_value']!r}"] if attrs["pad_value"] is not None else []
    options += ["assume_injective_transform=True"] if attrs["assume_injective_transform"] else []
    options += [f"sizes=[{', '.join(inputs[1:])}]"] if inputs[1:] else []
    return ", ".join([inputs[0], repr(buffer), repr(attrs["index_map"]), *options])


@primitive(
    "block", "int*",
    attrs={
        "buffer_index": (int,), "buffer_index_type": (str,), "index_map": (str,),
        "pad_value": (str, int, float, type(None)), "assume_injective_transform": (bool,),
    },
    spell=_spelled,
)  # fmt: skip
def transform_layout(
    func: n.PrimFunc, block: str, *sizes: int, buffer_index: int, buffer_index_type: str, index_map: str,
    pad_value: PadValue, assume_injective_transform: bool,
) -> StepEffect:  # fmt: skip
    """Change a buffer's layout: element [i, j] moves to `index_map`(i, j).

    The block only names the buffer, as the `buffer_index`-th one it reads or writes ("read", "write"); every access in
    the function follows. `sizes` are further arguments of the map. The map may not send two elements to one place;
    `assume_injective_transform` skips this check. Arguments of the function keep their layout.

    Places without an element hold `pad_value`, a number or a map of the places; with None their content is
    undefined. The block that writes the buffer fills them in new loops along the new dimensions, if it is a plain
    one in its own loops. Otherwise a new block does, B_pad.

    compute_at and reverse_compute_at follow plain indices, so move blocks first.

        index_map = lambda i, j: (j // 16, i, j % 16)

        B[vk, vj] = ...                   →   B[vj // 16, vk, vj % 16] = ...

        with pad_value = 0, j in 40       →   B[v0, v1, v2] = T.if_then_else(v0 * 16 + v2 >= 40, 0, ...)
    """
    found = realize_at(block_path(func, block)).block
    buffer = region_of(found, buffer_index_type, buffer_index).buffer
    if is_parameter(func, buffer):
        raise Illegal(f"buffer {buffer.name!r} is an argument of the function", block, hint="use a cache of it")
    chosen = read_map(index_map, [size.dtype for size in buffer.shape], sizes)
    shape = _new_shape(buffer, chosen, assume_injective_transform)
    new = n.decl_buffer(shape, buffer.dtype, buffer.name, scope=buffer.scope, data_alignment=buffer.data_alignment)
    if pad_value is not None:
        func = _padded(func, buffer, new, chosen, pad_value)
    return StepEffect(func.with_body(_moved(func.body, buffer, new, chosen)))


def region_of(block: n.Block, kind: str, index: int) -> n.BufferRegion:
    """The `index`-th region that `block` reads or writes ("read", "write").
    Raises Illegal when there is none."""
    name = block.name_hint
    regions = {"read": block.reads, "write": block.writes}.get(kind)
    if regions is None:
        raise Illegal(f"buffer_index_type is 'read' or 'write', not {kind[:20]!r}", name)
    if not 0 <= index < len(regions):
        raise Illegal(f"block {name!r} has no {kind} buffer number {index}", name)
    return regions[index]


def _new_shape(buffer: n.Buffer, index_map: IndexMap, trusted: bool) -> tuple[PrimExpr, ...]:
    """The extents that hold every place. Raises Illegal when two elements may get the same place."""
    analyzer = Analyzer()
    loops: list[n.For] = []
    for var, size in zip(index_map.initial_indices, buffer.shape):
        analyzer.bind(var, n.Range(ops.const(0, size.dtype), size))
        loops.append(n.For(var, ops.const(0), size, n.ForKind.SERIAL, n.Evaluate(ops.const(0))))
    for place in index_map.final_indices:
        low, high = analyzer.const_int_bound(place)
        if low is None or high is None or low < 0:
            raise Illegal(f"the index map does not give {buffer.name!r} constant extents from 0 up")
    lost = [] if trusted else undetermined(index_map.final_indices, loops, loops)
    if lost:
        raise Illegal(
            f"the index map may put two elements of {buffer.name!r} in one place: it loses index "
            f"{index_map.initial_indices.index(lost[0].loop_var)}"
        )
    return tuple(index_map.map_shape(buffer.shape))


def _moved(body: Stmt, old: n.Buffer, new: n.Buffer, index_map: IndexMap) -> Stmt:
    """`body` with every access of `old` turned into one of `new`."""
    analyzer = Analyzer()
    for node in walk(body):
        for iv in node.iter_vars if isinstance(node, n.Block) else ():
            if iv.dom is not None:
                analyzer.bind(iv.var, iv.dom)

    def go(node: Node) -> Node:
        rebuilt = map_children(node, go)
        match rebuilt:
            case n.BufferLoad() | n.BufferStore() if rebuilt.buffer is old:
                places = index_map.map_indices(rebuilt.indices, analyzer)
                return replace(rebuilt, buffer=new, indices=tuple(places))
            case n.Block():
                return _block(rebuilt)
        return rebuilt

    def _block(block: n.Block) -> n.Block:
        if any(b is old for b in block.alloc_buffers):
            block = replace(block, alloc_buffers=tuple(new if b is old else b for b in block.alloc_buffers))
        if not any(r.buffer is old for r in (*block.reads, *block.writes)):
            return block
        if tree.realizes(block.body) or block.match_buffers:
            raise Illegal(f"block {block.name_hint!r}, which uses {old.name!r}, holds other blocks", block.name_hint)
        return with_regions(block)

    result = go(body)
    assert isinstance(result, Stmt)
    return result


# ----------------------------------------------------------------------------------- padding


def _padded(func: n.PrimFunc, old: n.Buffer, new: n.Buffer, index_map: IndexMap, value: PadValue) -> n.PrimFunc:
    """`func` with what lies between the elements set in `new`.
    Its elements are still those of `old`, but for the stores of a block that was rewritten."""
    owner = next(p for p in tree.block_paths(func.body) if any(b is old for b in realize_at(p).block.alloc_buffers))
    around = realize_at(owner)
    writers = [r.block for r in tree.realizes(around.block.body) if any(w.buffer is old for w in r.block.writes)]
    me = _plain_writer(func, old, writers[0].name_hint) if len(writers) == 1 else None
    axes = _axes_by_index(me) if me is not None else _axes_of(old)
    places = laid_out(axes, index_map, me.name if me is not None else None)
    point = tuple(iv.var for iv in places.axes)
    fill = read_pad(value, point, new.dtype)
    if ops.is_const(places.beyond, 0):
        return func
    if me is not None:
        moved = relocated(me.block.body, places.was, places.analyzer)
        assert isinstance(moved, n.BufferStore)
        own = n.BufferStore(new, if_then_else(places.beyond, fill, moved.value), point)
        block = with_regions(replace(me.block, iter_vars=places.axes, body=own))
        return replaced(func, me.path[: own_nest(me) + 1], nest_over_axes(block))
    name = fresh_block_name(func, f"{old.name}_pad")
    # The condition stands in the block: other steps take a block's predicate to be about its axes' domains alone.
    store = n.IfThenElse(places.beyond, n.BufferStore(new, fill, point))
    block = with_regions(n.Block(places.axes, (), (), name, store))
    body = seq(nest_over_axes(block), around.block.body)
    return replaced(func, owner, tree.with_block(around, tree.with_block_body(around.block, body)))


def _plain_writer(func: n.PrimFunc, buffer: n.Buffer, name: str) -> Member | None:
    """The block called `name` if it is one store to each element of `buffer`, in loops of its own alone."""
    me, _ = scope_around(func, name)
    block, store = me.block, me.block.body
    if not isinstance(store, n.BufferStore) or store.predicate is not None or block.init is not None:
        return None
    if me.reads(buffer) or block.match_buffers or any(not is_data(iv) for iv in block.iter_vars):
        return None
    if sorted(map(id, store.indices)) != sorted(id(iv.var) for iv in block.iter_vars):
        return None
    sizes = {id(index): ops.as_int(size) for index, size in zip(store.indices, buffer.shape)}
    if any(iv.dom is None or ops.as_int(iv.dom.extent) != sizes[id(iv.var)] for iv in block.iter_vars):
        return None
    try:
        loops = loops_by_axis(me)
    except Illegal:
        return None
    plain = all(f.kind is n.ForKind.SERIAL and not f.annotations for f in loops.values())
    return me if plain else None


def _axes_by_index(me: Member) -> list[n.IterVar]:
    """The axes of a plain writer in the order of the dimensions that they index."""
    store = me.block.body
    assert isinstance(store, n.BufferStore)
    axes = {id(iv.var): iv for iv in me.block.iter_vars}
    return [axes[id(index)] for index in store.indices]


def _axes_of(buffer: n.Buffer) -> list[n.IterVar]:
    return [n.IterVar(n.Range(ops.const(0, size.dtype), size), n.Var("i", size.dtype)) for size in buffer.shape]
