"""See functions as products of matrices that tensor cores can compute.

    total[b, m, n] = sum over k of left[b, m, k] * right[b, n, k],    out[...] = f(total[b, m, n], ...)

Each of b, m, n and k stands for some axes of the summing block, fused in an order of ours. The sum's axes are k,
those of both operands b, those of one operand only m or n. This covers matrix products, batched or not, and
convolutions. A convolution's left operand may be its filters (NCHW) or its window of the image (NHWC). An operand's
element is computed from b, m or n, and k: a place in memory that is affine in the axes, and conditions (padding)
without which it is zero. `f` is all that is computed element by element from the sums.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from compiler.dtype import holds_all_of
from compiler.ir.base import Node, Op
from compiler.ir.visit import map_children, walk
from compiler.lower.analysis.conditions import conjuncts, is_true
from compiler.tensorcore.warp_form import (
    BYTES,
    FLOATS,
    Group,
    WarpAxis,
    WarpOperand,
    WarpProduct,
    flat,
    grouped,
    stored,
)
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr
from compiler.tir.visit import substitute

_IF_THEN_ELSE = Op.get("tir.if_then_else")


def warp_product(func: n.PrimFunc) -> WarpProduct | None:
    """Return what `func` computes, if that is one product for tensor cores and element-wise work on it.
    The product is of float16 or bfloat16, summed as float32 whatever the sums' dtype is, or of bytes with sums in
    int32."""
    steps = _steps(func)
    if steps is None:
        return None
    sums = [step for step in steps if step.reduced]
    if len(sums) != 1:
        return None
    [main] = sums
    term = _term(main)
    makers = {step.buffer.data: step for step in steps}
    follow = None if term is None else _after(func, main, steps)
    if term is None or follow is None or not _distinct(main.store.indices):
        return None
    found = [_element(factor, makers) for factor in term]
    first, second = found
    if first is None or second is None or not _dtypes(first[0].buffer.dtype, second[0].buffer.dtype, main.buffer.dtype):
        return None
    used = [*first[1], *second[1], main, *follow.steps]
    if len(used) != len({id(step) for step in used}) or len(used) != len(steps):
        return None  # something else is computed, or something twice
    inputs = {buffer.data for p, buffer in func.buffer_map.items()} - makers.keys()
    reads = {first[0].buffer.data, second[0].buffer.data}
    reads |= {x.buffer.data for x in walk(follow.value) if isinstance(x, n.BufferLoad)}
    if not reads <= inputs:
        return None
    form = grouped(main.axes, main.reduced, (first[0], second[0]), follow.index)
    return None if form is None else stored(form, follow.total, follow.value, follow.out, follow.index)


def _dtypes(left: str, right: str, total: str) -> bool:
    if left in FLOATS:
        return left == right and total in (left, "float32")
    return left in BYTES and right in BYTES and total == "int32"


# ------------------------------------------------------------------------------------------- blocks


@dataclass(frozen=True, slots=True)
class _Step:
    """A block: the value that it stores for each point of its axes, without axes of extent 1.
    `reduced`: axes of its sum."""

    axes: Group
    reduced: Group
    store: n.BufferStore

    @property
    def buffer(self) -> n.Buffer:
        return self.store.buffer


def _steps(func: n.PrimFunc) -> list[_Step] | None:
    """The blocks of `func`; None where one is not of a simple form, or two write one buffer."""
    found: list[_Step] = []
    for node in walk(func.body):
        if isinstance(node, n.BlockRealize) and node.block.iter_vars:
            step = _step(node)
            if step is None:
                return None
            found.append(step)
    written = {step.buffer.data for step in found}
    buffers = [*func.buffer_map.values(), *(step.buffer for step in found)]
    plain = all(not b.strides and b.elem_offset is None and b.shape for b in buffers)
    return found if plain and len(written) == len(found) else None


def _step(realize: n.BlockRealize) -> _Step | None:
    block = realize.block
    spatial: list[WarpAxis] = []
    reduced: list[WarpAxis] = []
    units: dict[n.Var, PrimExpr] = {}
    for iv in block.iter_vars:
        extent = None if iv.dom is None or not ops.is_const(iv.dom.min, 0) else ops.as_int(iv.dom.extent)
        if extent is None or iv.iter_type not in (n.IterType.DATA_PAR, n.IterType.COMM_REDUCE):
            return None
        if extent == 1:
            units[iv.var] = ops.const(0, iv.var.dtype)
        else:
            (spatial if iv.iter_type is n.IterType.DATA_PAR else reduced).append(WarpAxis(iv.var, extent))
    sums = any(iv.iter_type is n.IterType.COMM_REDUCE for iv in block.iter_vars)
    if not isinstance(block.body, n.BufferStore) or block.match_buffers or not is_true(realize.predicate):
        return None
    if sums != (block.init is not None) or (sums and not _starts_at_zero(block)):
        return None
    store = substitute(block.body, units)
    assert isinstance(store, n.BufferStore)
    whole = sums and not reduced  # a sum of one term
    return None if store.predicate is not None or whole else _Step(tuple(spatial), tuple(reduced), store)


def _starts_at_zero(block: n.Block) -> bool:
    init, store = block.init, block.body
    assert isinstance(store, n.BufferStore)
    return isinstance(init, n.BufferStore) and init.buffer is store.buffer and _is_zero(init.value)


def _is_zero(value: PrimExpr) -> bool:
    return isinstance(value, n.IntImm | n.FloatImm) and value.value == 0


def _distinct(indices: Sequence[PrimExpr]) -> bool:
    """Whether each is a variable of its own, or 0."""
    own = [i for i in indices if not ops.is_const(i, 0)]
    return all(isinstance(i, n.Var) for i in own) and len(set(map(id, own))) == len(own)


def _term(step: _Step) -> tuple[PrimExpr, PrimExpr] | None:
    """The factors of what a block adds up."""
    match step.store.value:
        case n.Add(a=n.BufferLoad() as before, b=n.Mul() as term):
            pass
        case _:
            return None
    same = before.buffer is step.buffer and all(
        a is b or (ops.is_const(a, 0) and ops.is_const(b, 0)) for a, b in zip(before.indices, step.store.indices)
    )
    return (term.a, term.b) if same else None


# ----------------------------------------------------------------------------------------- operands


def _element(factor: PrimExpr, makers: Mapping[n.Var, _Step]) -> tuple[WarpOperand, tuple[_Step, ...]] | None:
    """An element of a parameter, padded, widened or moved about on its way, and the blocks that do that."""
    if isinstance(factor, n.Cast) and holds_all_of(factor.dtype, factor.value.dtype):
        factor = factor.value
    match factor:
        case n.BufferLoad(buffer=buffer) if buffer.data not in makers:
            return WarpOperand(buffer, _flat_index(buffer, factor.indices)), ()
        case n.BufferLoad():
            maker = makers[factor.buffer.data]
            if maker.reduced or not _distinct(maker.store.indices):
                return None
            given = {v: i for v, i in zip(maker.store.indices, factor.indices) if isinstance(v, n.Var)}
            found = _element(substitute(maker.store.value, given), makers)
            return None if found is None else (found[0], (*found[1], maker))
        case n.Call(op=op, args=(condition, value, other)) if op is _IF_THEN_ELSE and _is_zero(other):
            pass
        case n.Select(condition=condition, true_value=value, false_value=other) if _is_zero(other):
            pass
        case _:
            return None
    found = _element(value, makers)
    if found is None:
        return None
    return replace(found[0], valid=(*found[0].valid, *conjuncts(condition))), found[1]


def _flat_index(buffer: n.Buffer, indices: Sequence[PrimExpr]) -> PrimExpr:
    result: PrimExpr = ops.const(0)
    for extent, index in zip(buffer.shape, indices):
        result = ops.add(ops.mul(result, extent), index)
    return result


# ------------------------------------------------------------------------------------ what follows


@dataclass(frozen=True, slots=True)
class _Follow:
    """The blocks after the sum, and their result.
    `value`, of `total`, goes to element number `index` of `out`."""

    steps: tuple[_Step, ...]
    total: n.Var
    value: PrimExpr
    out: n.Buffer
    index: PrimExpr


def _after(func: n.PrimFunc, main: _Step, steps: Sequence[_Step]) -> _Follow | None:
    """The chain of elementwise blocks from the sum to a parameter."""
    outputs = {buffer.data for buffer in func.buffer_map.values()}
    total = n.Var("total", "int32" if main.buffer.dtype == "int32" else "float32")
    value: PrimExpr = ops.cast(main.buffer.dtype, total)
    last, indices, chain = main, main.store.indices, []
    while last.buffer.data not in outputs:
        readers = [step for step in steps if step is not last and last.buffer.data in _read(step)]
        if len(readers) != 1 or readers[0].reduced:
            return None
        [step] = readers
        loads = [x for x in walk(step.store.value) if isinstance(x, n.BufferLoad) and x.buffer.data is last.buffer.data]
        given: dict[n.Var, PrimExpr] = {}
        for load in loads:
            if not _distinct(load.indices):
                return None
            now = {v: i for v, i in zip(load.indices, indices) if isinstance(v, n.Var)}
            if given and any(given.get(v) is not i for v, i in now.items()):
                return None
            given |= now
        if {axis.var for axis in step.axes} != given.keys():
            return None
        value = substitute(_with(step.store.value, loads, value), given)
        indices = tuple(substitute(i, given) for i in step.store.indices)
        last = step
        chain.append(step)
    return _Follow(tuple(chain), total, _flat_loads(value), last.buffer, _flat_index(last.buffer, indices))


def _read(step: _Step) -> set[n.Var]:
    return {x.buffer.data for x in walk(step.store.value) if isinstance(x, n.BufferLoad)}


def _with(expr: PrimExpr, loads: Sequence[n.BufferLoad], value: PrimExpr) -> PrimExpr:
    """`expr` with `value` in place of some of its loads."""

    def go(node: Node) -> Node:
        return value if any(node is load for load in loads) else map_children(node, go)

    found = go(expr)
    assert isinstance(found, PrimExpr)
    return found


def _flat_loads(expr: PrimExpr) -> PrimExpr:
    def go(node: Node) -> Node:
        node = map_children(node, go)
        if isinstance(node, n.BufferLoad):
            return n.BufferLoad(flat(node.buffer), (_flat_index(node.buffer, node.indices),))
        return node

    found = go(expr)
    assert isinstance(found, PrimExpr)
    return found
