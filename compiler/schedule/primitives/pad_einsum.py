"""Rounding the extents of a product up, with zeros around its operands: pad_einsum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from compiler.arith.analyzer import Analyzer
from compiler.ir.visit import replace
from compiler.schedule.analysis.dataflow import (
    Member,
    allocated,
    check_leaf,
    fresh_block_name,
    own_nest,
    scope_around,
    with_regions,
)
from compiler.schedule.analysis.expr import variables
from compiler.schedule.analysis.reductions import reduction_of
from compiler.schedule.core.state import Illegal, StepEffect, replaced
from compiler.schedule.core.step import primitive
from compiler.schedule.primitives.block_axes import loops_by_axis, nest_over_axes
from compiler.schedule.primitives.reindex import only_place, redirected
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.intrin.intrin import if_then_else
from compiler.tir.nodes import IterType, PrimExpr, Stmt
from compiler.tir.visit import seq

Padded = Mapping[n.Var, PrimExpr]  # the extent that an axis is padded to


@primitive("block", attrs={"padding": (tuple,)})
def pad_einsum(func: n.PrimFunc, block: str, padding: tuple[int, ...]) -> StepEffect:
    """Round the extents of a block's axes up to multiples of `padding`, one factor an axis.

    The block's inputs are copied with zeros around them, and its result is copied back without them. The block must
    store one element a point, in its own loops, one an axis; a padded axis must be an index by itself. Along a
    padded reduction axis it must add up products of elements that all lie along that axis, so that the zeros add
    nothing.

        for i, j, k in 13, 11, 10:        →   block A_pad: A_pad[v0, v1] = A[v0, v1] where v0 < 13 and v1 < 10, else 0
          block C:                            block B_pad: ...
            C[vi, vj] += A[vi, vk]            for i, j, k in 16, 12, 12:
                         * B[vk, vj]            block C: C_pad[vi, vj] += A_pad[vi, vk] * B_pad[vk, vj]
                                              block C_pad: C[v0, v1] = C_pad[v0, v1] for v0 < 13, v1 < 11
    """
    me, scope = scope_around(func, block)
    check_leaf(me)
    loops = loops_by_axis(me)
    padded = _padded_axes(me, padding)
    store = _store(me, padded)
    if not padded:
        return StepEffect(func)
    before: list[Stmt] = []
    after: list[Stmt] = []
    names: dict[str, n.Buffer] = {}
    new = replace(me.block, iter_vars=tuple(_widened(iv, padded) for iv in me.block.iter_vars))
    for buffer in dict.fromkeys((*(r.buffer for r in me.block.reads), store.buffer)):
        indices = only_place(me, buffer)
        if not any(index in padded for index in indices if isinstance(index, n.Var)):
            continue
        shape = tuple(padded.get(i, size) if isinstance(i, n.Var) else size for i, size in zip(indices, buffer.shape))
        larger = n.decl_buffer(shape, buffer.dtype, f"{buffer.name}_pad", scope=buffer.scope)
        name = fresh_block_name(func, larger.name, names)
        names[name] = larger
        if buffer is store.buffer:
            after.append(_cropped(larger, store, loops, name))
        else:
            ends = [loops[i].extent if isinstance(i, n.Var) and i in padded else None for i in indices]
            before.append(_filled(buffer, larger, ends, name))
        new = redirected(new, buffer, larger, indices)
    nest: Stmt = n.BlockRealize(me.realize.iter_values, me.realize.predicate, with_regions(new))
    for axis, loop in reversed(loops.items()):
        nest = replace(loop, extent=padded.get(axis, loop.extent), body=nest)
    changed = replaced(func, me.path[: own_nest(me) + 1], seq(*before, nest, *after))
    return StepEffect(allocated(changed, scope, names.values()))


# ------------------------------------------------------------------------------------ checks


def _padded_axes(me: Member, padding: tuple[int, ...]) -> Padded:
    """The axes that grow, with their new extents."""
    axes = me.block.iter_vars
    if len(padding) != len(axes):
        raise Illegal(f"block {me.name!r} has {len(axes)} axes, padding names {len(padding)} factors", me.name)
    if any(type(factor) is not int or factor < 1 for factor in padding):
        raise Illegal(f"padding must be positive integers, got {list(padding)}", me.name)
    grown: dict[n.Var, PrimExpr] = {}
    for iv, factor in zip(axes, padding):
        assert iv.dom is not None
        extent = iv.dom.extent
        known = ops.as_int(extent)
        if known is None and factor > 1:
            grown[iv.var] = ops.mul(ops.floordiv(ops.add(extent, factor - 1), factor), factor)
        elif known is not None and known % factor:
            grown[iv.var] = ops.const(known + factor - known % factor, extent.dtype)
    return grown


def _store(me: Member, padded: Padded) -> n.BufferStore:
    """The store that is all of the block.
    Raises Illegal where more iterations would change what it stores."""
    block, store = me.block, me.block.body
    if not isinstance(store, n.BufferStore) or block.match_buffers or store.predicate is not None:
        raise Illegal(f"block {me.name!r} is not one store", me.name)
    if block.init is None and me.reads(store.buffer):
        raise Illegal(f"block {me.name!r} adds to what {store.buffer.name!r} held before", me.name)
    if not all(w.buffer is store.buffer for w in block.writes):
        raise Illegal(f"block {me.name!r} writes more than one buffer", me.name)
    for buffer in (r.buffer for r in (*block.reads, *block.writes)):
        _check_indices(me, buffer, padded)
    for iv in block.iter_vars:
        if iv.var in padded and iv.iter_type is IterType.COMM_REDUCE:
            _check_sum(me, iv.var)
    _check_box(me, store, padded)
    return store


def _check_indices(me: Member, buffer: n.Buffer, padded: Padded) -> None:
    """A padded axis is an index of `buffer` by itself, or none, and stays inside."""
    extents = {iv.var: iv.dom.extent for iv in me.block.iter_vars if iv.dom is not None}
    for index, size in zip(only_place(me, buffer), buffer.shape):
        if not variables(index) & padded.keys():
            continue
        if not isinstance(index, n.Var):
            raise Illegal(f"index {index!r} of {buffer.name!r} in block {me.name!r} is no axis by itself", me.name)
        if not Analyzer().can_prove(ops.less_equal(extents[index], size)):
            raise Illegal(f"index {index!r} of {buffer.name!r} in block {me.name!r} may lie outside of it", me.name)


def _check_box(me: Member, store: n.BufferStore, padded: Padded) -> None:
    """Check that the block writes a box at its buffer's start, so that it can be copied back.
    An axis that stays one iteration long need not be an index."""
    indices = [index for index in store.indices if not ops.is_const(index, 0)]
    data = [
        iv.var for iv in me.block.iter_vars
        if iv.iter_type is IterType.DATA_PAR and (iv.var in padded or iv.var in indices or not _once(iv))
    ]  # fmt: skip
    if sorted(map(id, indices)) != sorted(map(id, data)):
        raise Illegal(
            f"block {me.name!r} does not write {store.buffer.name!r} at its {len(data)} data axes, each an index",
            me.name,
        )


def _once(iv: n.IterVar) -> bool:
    return iv.dom is not None and ops.is_const(iv.dom.extent, 1)


def _check_sum(me: Member, axis: n.Var) -> None:
    """Check that, along `axis`, the block adds up products that are 0 in the padding of their factors."""
    reduction = reduction_of(me)
    if reduction.kind is not n.Add:
        raise Illegal(
            f"block {me.name!r} reduces along axis {axis.name!r}, but not by a sum: zeros would count", me.name
        )
    for factor in _factors(reduction.source):
        if not isinstance(factor, n.BufferLoad):
            raise Illegal(
                f"block {me.name!r} does not add up products of elements along axis {axis.name!r}: {factor!r}", me.name
            )
        if not any(index is axis for index in factor.indices):
            raise Illegal(
                f"{factor.buffer.name!r} does not lie along the reduction axis {axis.name!r} of block {me.name!r}: "
                "there 0 would be multiplied by what need not be finite",
                me.name,
            )


def _factors(expr: PrimExpr) -> list[PrimExpr]:
    """Return what `expr` is the product of; casts keep 0 as it is."""
    match expr:
        case n.Mul(a, b):
            return _factors(a) + _factors(b)
        case n.Cast(value=value):
            return _factors(value)
    return [expr]


# ------------------------------------------------------------------------------------ copies


def _widened(iv: n.IterVar, padded: Padded) -> n.IterVar:
    extent = padded.get(iv.var)
    return iv if extent is None else replace(iv, dom=n.Range(ops.const(0, extent.dtype), extent))


def _filled(source: n.Buffer, larger: n.Buffer, ends: Sequence[PrimExpr | None], name: str) -> Stmt:
    """Loops that copy `source` up to `ends`, with zeros behind them."""
    axes = _axes(larger.shape)
    point = tuple(iv.var for iv in axes)
    inside = ops.logical_and(*(ops.less(var, end) for var, end in zip(point, ends) if end is not None))
    value = if_then_else(inside, source[point], ops.const(0, source.dtype))
    return nest_over_axes(with_regions(n.Block(axes, (), (), name, n.BufferStore(larger, value, point))))


def _cropped(larger: n.Buffer, store: n.BufferStore, loops: Mapping[n.Var, n.For], name: str) -> Stmt:
    """Loops that copy back what the block wrote before it was padded."""
    axes = _axes([loops[i].extent if isinstance(i, n.Var) else ops.const(1, i.dtype) for i in store.indices])
    point = tuple(iv.var for iv in axes)
    return nest_over_axes(with_regions(n.Block(axes, (), (), name, n.BufferStore(store.buffer, larger[point], point))))


def _axes(extents: Sequence[PrimExpr]) -> tuple[n.IterVar, ...]:
    return tuple(n.IterVar(n.Range(ops.const(0, e.dtype), e), n.Var(f"v{d}", e.dtype)) for d, e in enumerate(extents))
