"""Keep buffers twice: one half is filled for the next iteration while the other is read.

    for k in 8:                               alloc B[2, 4]
      alloc B[4]                              fill B[0] for k = 0
      fill B for k                      →     for k in 8:
      ... = B[...]                              if k + 1 < 8: fill B[(k + 1) % 2] for k + 1
                                                ... = B[k % 2, ...]

This is done for a buffer whose block asks for it (annotation `double_buffer_scope`, its position among the written
buffers). The statement that fills it must stand right in the loop that the buffer lives for. It must not depend on
anything that the rest of an iteration writes. Elsewhere the buffer stays as it is, because nothing can be fetched
ahead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compiler.errors import LoweringError
from compiler.ir.base import Node
from compiler.ir.visit import map_children, replace, transform, walk
from compiler.lower.analysis.conditions import TRUE
from compiler.lower.analysis.rename import substituted
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import ForKind, PrimExpr, Stmt
from compiler.tir.transform import tir_pass
from compiler.tir.verify import LoweringStage
from compiler.tir.visit import seq

DOUBLE_BUFFER = "double_buffer_scope"  # a block's annotation, and the attribute that stands for it once it dissolved


def noted(block: n.Block, body: Stmt) -> Stmt:
    """Wrap `body`, the dissolved `block`, in an attribute that keeps its request for two copies.
    Raises LoweringError if it names no buffer that the block writes."""
    position = block.annotations.get(DOUBLE_BUFFER)
    if position is None:
        return body
    if not isinstance(position, int) or not 0 <= position < len(block.writes):
        raise LoweringError(
            f"{DOUBLE_BUFFER} of block {block.name_hint!r} is {position!r}, no position of a buffer that it writes",
            hint=f"it writes {len(block.writes)}, counted from 0",
        )
    return n.AttrStmt(block.writes[position].buffer.data, DOUBLE_BUFFER, ops.const(1), body)


@tir_pass("InjectDoubleBuffer", gives=LoweringStage.LOOPS)
def inject_double_buffer(func: n.PrimFunc) -> n.PrimFunc:
    """Keep buffers twice where their blocks ask for it, and fill them an iteration ahead."""
    wanted: set[n.Var] = set()

    def collect(node: Node) -> Node:
        if isinstance(node, PrimExpr):
            return node
        match node:
            case n.AttrStmt(node=n.Var() as data, attr_key=key) if key == DOUBLE_BUFFER:
                wanted.add(data)
                return collect(node.body)
        return map_children(node, collect)

    def go(node: Node) -> Node:
        if isinstance(node, PrimExpr):
            return node
        rebuilt = map_children(node, go)
        return _ahead(rebuilt, wanted) if isinstance(rebuilt, n.For) else rebuilt

    body = collect(func.body)
    assert isinstance(body, Stmt)
    if wanted:
        body = go(body)
        assert isinstance(body, Stmt)
    return func.with_body(body)


@dataclass(frozen=True, slots=True)
class _Parts:
    """An iteration of a loop.
    It has the buffers that live for it and its statements; those from `first` to `last` fill the buffer `doubled`."""

    allocations: tuple[n.Allocate, ...]
    statements: tuple[Stmt, ...]
    doubled: n.Buffer
    first: int
    last: int

    @property
    def filling(self) -> tuple[Stmt, ...]:
        return self.statements[self.first : self.last]

    @property
    def others(self) -> tuple[Stmt, ...]:
        return self.statements[: self.first] + self.statements[self.last :]


def _ahead(loop: n.For, wanted: set[n.Var]) -> Stmt:
    """`loop` with the wanted buffers of its iterations doubled, where they can be."""
    if loop.kind not in (ForKind.SERIAL, ForKind.UNROLLED):
        return loop
    around: list[n.Allocate] = []
    before: list[Stmt] = []
    held, _ = _opened(loop.body)
    for data in (a.buffer_var for a in held if a.buffer_var in wanted):
        parts = _parts(loop, data)
        if parts is not None:
            allocation, start, loop = _doubled(loop, parts)
            around.append(allocation)
            before.append(start)
    result: Stmt = seq(*before, loop)
    for allocation in reversed(around):
        result = replace(allocation, body=result)
    return result


def _opened(body: Stmt) -> tuple[tuple[n.Allocate, ...], tuple[Stmt, ...]]:
    allocations: list[n.Allocate] = []
    while isinstance(body, n.Allocate):
        allocations.append(body)
        body = body.body
    return tuple(allocations), body.seq if isinstance(body, n.SeqStmt) else (body,)


def _parts(loop: n.For, data: n.Var) -> _Parts | None:
    """Split off what fills the buffer of `data`. None if it cannot be filled ahead."""
    allocations, statements = _opened(loop.body)
    writing = [at for at, stmt in enumerate(statements) if data in _stored([stmt])]
    if not writing or len(writing) != writing[-1] - writing[0] + 1 or len(writing) == len(statements):
        return None
    buffers = {b for b in _buffers(statements) if b.data is data}
    if len(buffers) != 1:
        return None  # seen under another shape, too
    parts = _Parts(allocations, statements, buffers.pop(), writing[0], writing[-1] + 1)
    own = {a.buffer_var for a in allocations} - {data}
    touched = {b.data for b in _buffers(parts.filling)}
    free = touched.isdisjoint(own | _stored(parts.others)) and _stored(parts.filling) == {data}
    return parts if free and not _opaque(parts, data) else None


def _doubled(loop: n.For, parts: _Parts) -> tuple[n.Allocate, Stmt, n.For]:
    """The allocation of the doubled buffer (its body does not count), what fills it first, and the loop."""
    old = parts.doubled
    strides = (ops.mul(old.shape[0], old.strides[0]), *old.strides) if old.strides else ()
    new = replace(old, shape=(ops.const(2), *old.shape), strides=strides)
    begin, end = loop.min, ops.add(loop.min, loop.extent)
    following = ops.add(loop.loop_var, 1)

    def half(at: PrimExpr) -> PrimExpr:
        return ops.floormod(ops.sub(at, begin), 2)

    def filled(at: PrimExpr, condition: PrimExpr) -> Stmt:
        body = _in_half([substituted(seq(*parts.filling), {loop.loop_var: at})], old, new, half(at))
        return body if ops.is_const(condition, 1) else n.IfThenElse(condition, body)

    start = filled(begin, ops.less(0, loop.extent))
    now = half(loop.loop_var)
    others = [_in_half([stmt], old, new, now) for stmt in parts.others]
    ahead = filled(following, ops.less(following, end))
    body: Stmt = seq(*others[: parts.first], ahead, *others[parts.first :])
    [mine] = [a for a in parts.allocations if a.buffer_var is old.data]
    for allocation in reversed(parts.allocations):
        if allocation is not mine:
            body = replace(allocation, body=body)
    extents = (ops.add(strides[0], mine.extents[0]),) if strides else (ops.const(2), *mine.extents)
    return n.Allocate(old.data, old.dtype, extents, TRUE, start, mine.scope), start, replace(loop, body=body)


def _in_half(stmts: Sequence[Stmt], old: n.Buffer, new: n.Buffer, half: PrimExpr) -> Stmt:
    def moved(node: Node) -> Node | None:
        if isinstance(node, n.BufferLoad | n.BufferStore) and node.buffer is old:
            return replace(node, buffer=new, indices=(half, *node.indices))
        return None

    result = transform(seq(*stmts), post=moved)
    assert isinstance(result, Stmt)
    return result


def _buffers(stmts: Sequence[Stmt]) -> set[n.Buffer]:
    """Return what is loaded or stored."""
    return {x.buffer for s in stmts for x in walk(s) if isinstance(x, n.BufferLoad | n.BufferStore)}


def _stored(stmts: Sequence[Stmt]) -> set[n.Var]:
    return {x.buffer.data for s in stmts for x in walk(s) if isinstance(x, n.BufferStore)}


def _opaque(parts: _Parts, data: n.Var) -> bool:
    """Whether there is a hidden effect: an address is taken, or a function is called."""
    inside = [x for s in parts.statements for x in walk(s)]
    calls = [x for s in parts.filling for x in walk(s) if isinstance(x, n.Evaluate | n.While)]
    return bool(calls) or any(x is data for x in inside)
