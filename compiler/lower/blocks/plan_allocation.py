"""Where intermediate buffers are allocated.

Moved from the block that declares them to the innermost loop that holds all their uses.

    block root: alloc B               block root:
      for i:                            for i:
        for j: B[i, j] = ...     →        block alloc_B: alloc B
        for j: C[i, j] = B[i, j]            for j: B[i, j] = ...
                                            for j: C[i, j] = B[i, j]

A buffer stays outside the loops of a reduction it accumulates, and outside vectorized loops, whose
iterations run at once. So does one whose values an iteration may leave for a later one (`carried_values`). A loop
annotated with `STORE_AT` holds the buffers named there itself.
"""

from __future__ import annotations

from compiler.ir.base import Node
from compiler.ir.visit import children, map_children, replace
from compiler.lower.analysis.conditions import TRUE
from compiler.lower.blocks.carried_values import CarriedValues
from compiler.tir import nodes as n
from compiler.tir.nodes import ForKind, IterType, PrimExpr, Stmt
from compiler.tir.transform import tir_pass
from compiler.tir.visit import free_vars

Loops = tuple[n.For, ...]
STORE_AT = "store_at"  # a loop's annotation: the names of buffers that live for one of its iterations


@tir_pass("PlanAndUpdateBufferAllocationLocation")
def plan_allocation(func: n.PrimFunc) -> n.PrimFunc:
    """Move each allocation to the innermost block around all uses of the buffer.

    It becomes an allocating block of its own, as far inward as carried values allow.
    """
    finder = _Finder()
    finder.visit(func.body, ())
    if not finder.declared:
        return func
    carried: CarriedValues | None = None
    inside: dict[n.For, list[n.Buffer]] = {}
    stay: dict[n.Block, list[n.Buffer]] = {}
    for buffer, (block, declared_in) in finder.declared.items():
        uses = finder.uses.get(buffer)
        if uses is None:
            continue  # never touched
        depth = len(declared_in)
        if len(uses) > depth:
            carried = carried or CarriedValues(func.body, finder.declared)
            uses = uses[: carried.depth(buffer, uses, depth)]
        uses = _until_held(uses, buffer)
        if len(uses) > depth:
            inside.setdefault(uses[-1], []).append(buffer)
        else:
            stay.setdefault(block, []).append(buffer)
    return func.with_body(_rewrite(func.body, inside, stay))


class _Finder:
    """Finds for each buffer where it is declared and the loops that all its uses share."""

    def __init__(self) -> None:
        self.declared: dict[n.Buffer, tuple[n.Block, Loops]] = {}
        self.uses: dict[n.Buffer, Loops] = {}
        self._by_data: dict[n.Var, n.Buffer] = {}

    def visit(self, node: Node, loops: Loops) -> None:
        match node:
            case n.IntImm():
                return
            case n.BinaryOp():
                self.visit(node.a, loops)
                self.visit(node.b, loops)
                return
            case n.For():
                self.visit(node.min, loops)
                self.visit(node.extent, loops)
                self.visit(node.body, (*loops, node))
                return
            case n.BlockRealize():
                self._enter(node, loops)
            case n.BufferLoad() | n.BufferStore():
                self._use(self._by_data.get(node.buffer.data, node.buffer), loops)
            case n.Var() if node in self._by_data:
                self._use(self._by_data[node], loops)
            case n.Block():
                for part in (node.init, node.body):
                    if part is not None:
                        self.visit(part, loops)
                return
            case _:
                pass
        for child in children(node):
            self.visit(child, loops)

    def _enter(self, realize: n.BlockRealize, loops: Loops) -> None:
        block = realize.block
        for buffer in block.alloc_buffers:
            self.declared[buffer] = (block, loops)
            self._by_data[buffer.data] = buffer
        for match in block.match_buffers:
            self._use(match.source.buffer, loops)
            self._by_data.setdefault(match.buffer.data, match.source.buffer)
        reduced: set[n.Var] = set()
        for iter_var, value in zip(block.iter_vars, realize.iter_values):
            if iter_var.iter_type is not IterType.DATA_PAR:
                reduced |= free_vars(value)
        if reduced:
            outside = _before(loops, lambda loop: loop.loop_var in reduced)
            for written in block.writes:
                self._use(written.buffer, outside)

    def _use(self, buffer: n.Buffer, loops: Loops) -> None:
        loops = _before(loops, lambda loop: loop.kind is ForKind.VECTORIZED)
        known = self.uses.get(buffer)
        if known is None:
            self.uses[buffer] = loops
            return
        shared = 0
        while shared < len(known) and shared < len(loops) and known[shared] is loops[shared]:
            shared += 1
        if shared < len(known):
            self.uses[buffer] = known[:shared]


def _until_held(loops: Loops, buffer: n.Buffer) -> Loops:
    """The loops down to the one that holds `buffer`; all of them when none does."""
    for depth, loop in enumerate(loops, 1):
        if buffer.name in loop.annotations.get(STORE_AT, ()):
            return loops[:depth]
    return loops


def _before(loops: Loops, stop: object) -> Loops:
    assert callable(stop)
    for depth, loop in enumerate(loops):
        if stop(loop):
            return loops[:depth]
    return loops


def _rewrite(body: Stmt, inside: dict[n.For, list[n.Buffer]], stay: dict[n.Block, list[n.Buffer]]) -> Stmt:
    def go(node: Node) -> Node:
        if isinstance(node, PrimExpr):
            return node
        rebuilt = map_children(node, go)
        if isinstance(node, n.For) and node in inside:
            assert isinstance(rebuilt, n.For)
            notes = {key: note for key, note in rebuilt.annotations.items() if key != STORE_AT}
            return replace(rebuilt, body=allocating(inside[node], rebuilt.body), annotations=notes)
        if isinstance(node, n.Block) and (node.alloc_buffers or node in stay):
            return replace(rebuilt, alloc_buffers=tuple(stay.get(node, ())))
        return rebuilt

    result = go(body)
    assert isinstance(result, Stmt)
    return result


def allocating(buffers: list[n.Buffer], body: Stmt) -> Stmt:
    """A block without iteration variables that allocates `buffers` around `body`."""
    name = "alloc_" + "_".join(buffer.name for buffer in buffers)
    return n.BlockRealize((), TRUE, n.Block((), (), (), name, body, alloc_buffers=tuple(buffers)))
