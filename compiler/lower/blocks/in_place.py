"""Keep temporaries in the place of the result, without memory of their own and in fewer cache lines.

    alloc T[8, 64]                                    for j: C[i, j] = exp(A[i, j])
    for j: T[i, j] = exp(A[i, j])                     for j: sum += C[i, j]
    for j: sum += T[i, j]                       →     for j: C[i, j] = C[i, j] / sum
    for j: C[i, j] = T[i, j] / sum      (in place)

A loop annotated with `in_place` asks for it. It is done only where nothing can go wrong. The loop stores one of the
function's own buffers, which nobody else touches. Each element comes from the same element of a temporary of the same
shape. One statement makes those elements of the temporary, and nothing uses it after the loop. Functions with bound
loops ignore the annotation, because memory of GPUs has kinds. Temporaries are allocated where they live by now, and
have not shrunk yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from compiler.arith.affine import as_affine
from compiler.arith.analyzer import Analyzer
from compiler.ir.base import Node
from compiler.ir.visit import children, map_children, replace, walk
from compiler.lower.gpu.thread_axes import is_bound
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr, Stmt
from compiler.tir.transform import tir_pass

IN_PLACE = "in_place"

Access = n.BufferLoad | n.BufferStore
Box = tuple[tuple[PrimExpr, int], ...]  # where it starts and how long it is along each dimension


@tir_pass("KeepInPlace")
def in_place(func: n.PrimFunc) -> n.PrimFunc:
    """Keep the temporaries of loops annotated with `in_place` in their results' places.

    The annotations are gone from the result.
    """
    if not any(isinstance(node, n.For) and IN_PLACE in node.annotations for node in walk(func.body)):
        return func
    given = frozenset(func.buffer_map.values())
    swap = {} if is_bound(func) else dict(_Search(func.body, given).found)

    def go(node: Node) -> Node:
        rebuilt = map_children(node, go)
        match rebuilt:
            case n.BufferLoad() | n.BufferStore() if rebuilt.buffer in swap:
                return replace(rebuilt, buffer=swap[rebuilt.buffer])
            case n.Block() if any(b in swap for b in rebuilt.alloc_buffers):
                return replace(rebuilt, alloc_buffers=tuple(b for b in rebuilt.alloc_buffers if b not in swap))
            case n.For() if IN_PLACE in rebuilt.annotations:
                others = {k: v for k, v in rebuilt.annotations.items() if k != IN_PLACE}
                return replace(rebuilt, annotations=others)
        return rebuilt

    body = go(func.body)
    assert isinstance(body, Stmt)
    return func.with_body(body)


@dataclass
class _Use:
    """An access, the loops around it, and whether it is sure to happen."""

    node: Access
    loops: tuple[n.For, ...]
    sure: bool


@dataclass
class _Uses:
    """All accesses of a buffer, in order."""

    of: list[_Use] = field(default_factory=list)
    depth: int = 0  # loops around its allocation
    opaque: bool = False


class _Search:
    """Finds which temporaries can be kept in the place of which results."""

    def __init__(self, body: Stmt, given: frozenset[n.Buffer]) -> None:
        self.found: dict[n.Buffer, n.Buffer] = {}
        self._given, self._analyzer = given, Analyzer()
        self._uses: dict[n.Buffer, _Uses] = {buffer: _Uses() for buffer in given}
        self._by_data = {buffer.data: buffer for buffer in given}
        self._asking: list[tuple[n.For, ...]] = []
        self._visit(body, (), True)
        for loops in self._asking:
            self._decide(loops)

    def _visit(self, node: Node, loops: tuple[n.For, ...], sure: bool) -> None:
        match node:
            case n.For():
                loops = (*loops, node)
                self._analyzer.bind(node.loop_var, n.Range(node.min, node.extent))
                if IN_PLACE in node.annotations:
                    self._asking.append(loops)
            case n.Block():
                for buffer in node.alloc_buffers:
                    self._uses[buffer] = _Uses(depth=len(loops))
                    self._by_data[buffer.data] = buffer
            case n.BufferLoad() | n.BufferStore():
                known = self._uses.get(self._by_data.get(node.buffer.data, node.buffer))
                if known is not None:
                    known.of.append(_Use(node, loops, sure and node.predicate is None))
                    known.opaque |= node.buffer not in self._uses
            case n.Var() if node in self._by_data:
                self._uses[self._by_data[node]].opaque = True
            case n.IfThenElse() | n.While():
                sure = False
            case _:
                pass
        for child in children(node):
            self._visit(child, loops, sure)

    def _decide(self, loops: tuple[n.For, ...]) -> None:
        inside = [node for node in walk(loops[-1]) if isinstance(node, n.BufferLoad | n.BufferStore)]
        stores = [node for node in inside if isinstance(node, n.BufferStore)]
        if len(stores) != 1 or stores[0].buffer not in self._given or stores[0].buffer in self.found.values():
            return
        [store] = stores
        result = self._uses[store.buffer]
        if result.opaque or len(result.of) != 1:
            return
        for read in dict.fromkeys(node.buffer for node in inside if isinstance(node, n.BufferLoad)):
            known = self._uses.get(read)
            if known is not None and read not in self._given and self._fits(read, known, result.of[0], loops):
                self.found[read] = store.buffer
                return

    def _fits(self, temporary: n.Buffer, uses: _Uses, stored: _Use, loops: tuple[n.For, ...]) -> bool:
        """Whether `stored`, in the innermost of `loops`, may take the place of `temporary`."""
        result, around = stored.node.buffer, loops[uses.depth : -1]
        if uses.opaque or not _alike(temporary, result) or any(ops.as_int(loop.extent) != 1 for loop in around):
            return False
        reading = [loops[-1] in use.loops for use in uses.of]
        if reading != sorted(reading):  # used after the loop
            return False
        wanted = stored.node.indices
        for use, is_read in zip(uses.of, reading):
            if is_read and not all(map(self._analyzer.can_prove_equal, use.node.indices, wanted)):
                return False
        made = [use for use in uses.of if isinstance(use.node, n.BufferStore)]
        if len(made) != 1 or not (made[0].sure and stored.sure):
            return False
        one, two = (_box(use.node.indices, use.loops[uses.depth :]) for use in (made[0], stored))
        if one is None or two is None or [length for _, length in one] != [length for _, length in two]:
            return False
        return all(self._analyzer.can_prove_equal(a, b) for (a, _), (b, _) in zip(one, two))


def _alike(a: n.Buffer, b: n.Buffer) -> bool:
    """Whether buffers have the same elements, one after the other."""
    sizes = [[ops.as_int(size) for size in buffer.shape] for buffer in (a, b)]
    plain = not a.strides and not b.strides and not ops.as_int(b.elem_offset or 0)
    return a.dtype == b.dtype and a.scope == b.scope and sizes[0] == sizes[1] and None not in sizes[0] and plain


def _box(indices: Sequence[PrimExpr], loops: Sequence[n.For]) -> Box | None:
    """Return the box of which each element is touched once while `loops` run; None if none is found."""
    variables, found = [loop.loop_var for loop in loops], list[tuple[PrimExpr, int]]()
    steps: set[int] = set()
    for index in indices:
        affine = as_affine(index, variables)
        if affine is None:
            return None
        factors, start = affine
        moving = sorted((factor, i) for i, factor in enumerate(factors) if factor and ops.as_int(loops[i].extent) != 1)
        length = 1
        for factor, i in moving:
            extent = ops.as_int(loops[i].extent)
            if extent is None or factor != length or i in steps:
                return None
            steps.add(i)
            length *= extent
        found.append((start, length))
    still = (i for i, loop in enumerate(loops) if i not in steps and ops.as_int(loop.extent) != 1)
    started = all(ops.as_int(loop.min) == 0 for loop in loops)
    return tuple(found) if started and next(still, None) is None else None
