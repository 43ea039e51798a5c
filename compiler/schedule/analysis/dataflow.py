"""Which blocks write and read a buffer, and where statements stand relative to each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from compiler.ir.base import Node
from compiler.ir.visit import map_children, replace
from compiler.schedule.analysis import tree
from compiler.schedule.analysis.tree import Path
from compiler.schedule.core.state import Illegal, block_path, realize_at, replaced
from compiler.tir import nodes as n
from compiler.tir.nodes import IterType, Stmt
from compiler.tir.regions import read_regions, write_regions


@dataclass(frozen=True, slots=True)
class Member:
    """A block of a scope and its path from the root."""

    path: Path

    @property
    def realize(self) -> n.BlockRealize:
        return realize_at(self.path)

    @property
    def block(self) -> n.Block:
        return self.realize.block

    @property
    def name(self) -> str:
        return self.block.name_hint

    def writes(self, buffer: n.Buffer) -> bool:
        return any(w.buffer is buffer for w in self.block.writes)

    def reads(self, buffer: n.Buffer) -> bool:
        return any(r.buffer is buffer for r in self.block.reads)


@dataclass(frozen=True, slots=True)
class BlockDataflow:
    """A block and the blocks right inside it, in program order."""

    path: Path
    members: tuple[Member, ...]

    @property
    def block(self) -> n.Block:
        return realize_at(self.path).block

    def writers(self, buffer: n.Buffer) -> list[Member]:
        return [m for m in self.members if m.writes(buffer)]

    def readers(self, buffer: n.Buffer) -> list[Member]:
        """The blocks that read `buffer`, those that also write it left out."""
        return [m for m in self.members if m.reads(buffer) and not m.writes(buffer)]


def scope_around(func: n.PrimFunc, name: str) -> tuple[Member, BlockDataflow]:
    """The block called `name` and the scope it stands in. Raises Illegal for the root block."""
    path = block_path(func, name)
    if len(path) == 1:
        raise Illegal("the root block cannot be scheduled", name)
    prefix = path[: tree.scope_of(path) + 1]
    members = members_of(prefix)
    me = next(m for m in members if m.name == name)
    return me, BlockDataflow(prefix, members)


def members_of(scope: Path) -> tuple[Member, ...]:
    """The blocks right inside the block that `scope` ends in, in program order."""
    return tuple(Member(scope[:-1] + p) for p in _member_paths(scope[-1]))


def _member_paths(scope: Stmt) -> list[Path]:
    """Paths from `scope` to the blocks right inside it."""
    assert isinstance(scope, n.BlockRealize)
    found: list[Path] = []
    stack: list[Path] = [(scope, scope.block.body)]
    while stack:
        path = stack.pop()
        if isinstance(path[-1], n.BlockRealize):
            found.append(path)
        else:
            stack.extend((*path, child) for child in reversed(tree.inner(path[-1])))
    return found


def is_parameter(func: n.PrimFunc, buffer: n.Buffer) -> bool:
    """Whether `buffer` is an argument of the function: visible outside."""
    return any(b is buffer for b in func.buffer_map.values())


def common_prefix(paths: Iterable[Path]) -> int:
    """How many leading statements all the paths share."""
    items = list(paths)
    shortest = min(len(p) for p in items)
    for depth in range(shortest):
        if any(p[depth] is not items[0][depth] for p in items):
            return depth
    return shortest


# ------------------------------------------------------------------------- changing buffers

Buffers = Mapping[n.Buffer, n.Buffer]


def swap_buffers(node: Node, swap: Buffers) -> Node:
    """`node` with buffers replaced in loads, stores, regions and allocations."""

    def go(current: Node) -> Node:
        rebuilt = map_children(current, go)
        if isinstance(rebuilt, n.BufferLoad | n.BufferStore) and rebuilt.buffer in swap:
            return replace(rebuilt, buffer=swap[rebuilt.buffer])
        if isinstance(rebuilt, n.Block):
            return _swap_in_block(rebuilt, swap)
        return rebuilt

    return go(node)


def _swap_in_block(block: n.Block, swap: Buffers) -> n.Block:
    reads, writes = _swap_regions(block.reads, swap), _swap_regions(block.writes, swap)
    allocs = tuple(swap.get(b, b) for b in block.alloc_buffers)
    matches = tuple(n.MatchBufferRegion(m.buffer, _swap_regions((m.source,), swap)[0]) for m in block.match_buffers)
    return replace(block, reads=reads, writes=writes, alloc_buffers=allocs, match_buffers=matches)


def _swap_regions(regions: tuple[n.BufferRegion, ...], swap: Buffers) -> tuple[n.BufferRegion, ...]:
    return tuple(n.BufferRegion(swap[r.buffer], r.region) if r.buffer in swap else r for r in regions)


def fresh_block_name(func: n.PrimFunc, name: str, others: Iterable[str] = ()) -> str:
    """`name`, or `name` with a number that no block of the function has, nor is one of `others`."""
    taken = {realize_at(p).block.name_hint for p in tree.block_paths(func.body)} | set(others)
    candidate, count = name, 0
    while candidate in taken:
        count += 1
        candidate = f"{name}_{count}"
    return candidate


def with_allocations(scope: n.BlockRealize, add: Iterable[n.Buffer] = (), drop: Iterable[n.Buffer] = ()) -> Stmt:
    """`scope` with buffers added to, and taken from, those its block allocates."""
    gone = set(drop)
    kept = tuple(b for b in scope.block.alloc_buffers if b not in gone)
    return tree.with_block(scope, replace(scope.block, alloc_buffers=(*kept, *add)))


def allocated(func: n.PrimFunc, scope: BlockDataflow, buffers: Iterable[n.Buffer]) -> n.PrimFunc:
    """Return `func`, whose block of `scope` was changed, with `buffers` added to what it allocates."""
    path = block_path(func, scope.block.name_hint)
    return replaced(func, path, with_allocations(realize_at(path), add=buffers))


def own_nest(member: Member) -> int:
    """Return the position, in the block's path, of the outermost loop that holds nothing else."""
    depth = len(member.path) - 1
    while isinstance(member.path[depth - 1], n.For):
        depth -= 1
    return depth


def check_unordered(block: n.Block) -> None:
    """Raise Illegal if the iterations of the block must run in their order, where they stand."""
    name = block.name_hint
    for iv in block.iter_vars:
        if iv.iter_type in (IterType.ORDERED, IterType.OPAQUE):
            raise Illegal(f"block {name!r} needs the iterations along axis {iv.var.name!r} in their order", name)


def check_leaf(member: Member) -> None:
    """Raise Illegal when the block holds other blocks."""
    if tree.realizes(member.block.body):
        raise Illegal(f"block {member.name!r} holds other blocks", member.name)


def with_regions(block: n.Block) -> n.Block:
    """A leaf block with its reads and writes computed again.
    The reads of a reduction that holds its own init leave out its result."""
    stmts = [block.body] if block.init is None else [block.init, block.body]
    writes = write_regions(stmts)
    own = [] if block.init is None else [w.buffer for w in writes]
    return replace(block, reads=read_regions(stmts, own), writes=writes)
