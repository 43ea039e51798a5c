"""Find loops and blocks in a function, and replace a subtree along the path to it.

A path is the statements from the root block's realize down to a statement, both included. A loop is known by the
identity of its variable, a block by its name. Nothing is indexed: a scheduled function has some tens of statements, and
walking them costs less than keeping an index right.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from compiler.ir.base import Node
from compiler.ir.visit import map_children
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import Stmt
from compiler.tir.visit import seq

Path = tuple[Stmt, ...]
_Link = tuple[Stmt, Any]  # a statement and the link of its parent, or None


def inner(stmt: Stmt) -> tuple[Stmt, ...]:
    """The statements right inside `stmt`; of a block, its body (an init holds no loops to schedule)."""
    cls = type(stmt)
    if cls is n.For:
        return (stmt.body,)  # type: ignore[attr-defined]
    if cls is n.SeqStmt:
        return stmt.seq  # type: ignore[attr-defined,no-any-return]
    if cls is n.BlockRealize:
        return (stmt.block.body,)  # type: ignore[attr-defined]
    if isinstance(stmt, n.IfThenElse):
        return (stmt.then_case,) if stmt.else_case is None else (stmt.then_case, stmt.else_case)
    if isinstance(stmt, n.LetStmt | n.AttrStmt | n.AssertStmt | n.While | n.Allocate):
        return (stmt.body,)
    return ()


def _links(root: Stmt) -> Iterator[_Link]:
    stack: list[_Link] = [(root, None)]
    while stack:
        link = stack.pop()
        yield link
        for child in reversed(inner(link[0])):
            stack.append((child, link))


def _path(link: _Link | None) -> Path:
    nodes: list[Stmt] = []
    while link is not None:
        nodes.append(link[0])
        link = link[1]
    return tuple(reversed(nodes))


def find_loop(root: Stmt, var: n.Var) -> Path | None:
    """The path to the loop over `var`, or None when there is no such loop."""
    stack: list[_Link] = [(root, None)]
    pop, push = stack.pop, stack.append
    while stack:  # as `_links` goes: every step asks for its loops, so this one is written out
        link = pop()
        node = link[0]
        cls = type(node)
        if cls is n.For:
            if node.loop_var is var:  # type: ignore[attr-defined]
                return _path(link)
            push((node.body, link))  # type: ignore[attr-defined]
        elif cls is n.BlockRealize:
            push((node.block.body, link))  # type: ignore[attr-defined]
        elif cls is not n.BufferStore:
            for child in reversed(inner(node)):
                push((child, link))
    return None


def find_block(root: Stmt, name: str) -> Path | None:
    """The path to the BlockRealize of the block called `name`, or None."""
    for link in _links(root):
        node = link[0]
        if type(node) is n.BlockRealize and node.block.name_hint == name:
            return _path(link)
    return None


def block_paths(root: Stmt) -> list[Path]:
    """The paths to all blocks, in program order, the root block first."""
    return [_path(link) for link in _links(root) if type(link[0]) is n.BlockRealize]


def realizes(stmt: Stmt) -> list[n.BlockRealize]:
    """The blocks in `stmt` (itself included), in program order, not looking inside blocks."""
    found: list[n.BlockRealize] = []
    stack = [stmt]
    while stack:
        node = stack.pop()
        if isinstance(node, n.BlockRealize):
            found.append(node)
        else:
            stack.extend(reversed(inner(node)))
    return found


def loops_of(path: Path) -> list[n.For]:
    """The loops around the last statement of `path` inside its innermost enclosing block, outermost first."""
    start = scope_of(path)
    return [node for node in path[start + 1 : -1] if isinstance(node, n.For)]


def scope_of(path: Path) -> int:
    """The position in `path` of the innermost block around its last statement."""
    for position in range(len(path) - 2, -1, -1):
        if isinstance(path[position], n.BlockRealize):
            return position
    return 0


def loops_in(stmt: Stmt) -> list[n.For]:
    """The loops in `stmt` (itself included), outer before inner, not looking inside blocks."""
    found: list[n.For] = []
    stack = [stmt]
    while stack:
        node = stack.pop()
        if isinstance(node, n.For):
            found.append(node)
        if not isinstance(node, n.BlockRealize):
            stack.extend(reversed(inner(node)))
    return found


def all_loops_in(stmt: Stmt) -> list[n.For]:
    """The loops in `stmt` (itself included) and in its blocks, outer before inner."""
    return [link[0] for link in _links(stmt) if isinstance(link[0], n.For)]


def loops_around(top: Stmt, realize: n.BlockRealize) -> list[n.For]:
    """The loops from `top` (itself included) down to a block in it, outermost first."""
    return [loop for loop in loops_in(top) if any(r is realize for r in realizes(loop))]


# ------------------------------------------------------------------------------- rebuilding


def with_body(loop: n.For, body: Stmt) -> n.For:
    return n.For(
        loop.loop_var, loop.min, loop.extent, loop.kind, body, loop.thread_binding, loop.annotations, loop.span
    )


def with_block(realize: n.BlockRealize, block: n.Block) -> n.BlockRealize:
    return n.BlockRealize(realize.iter_values, realize.predicate, block, realize.span)


def with_block_body(block: n.Block, body: Stmt) -> n.Block:
    return n.Block(
        block.iter_vars, block.reads, block.writes, block.name_hint, body, block.init, block.alloc_buffers,
        block.match_buffers, block.annotations, block.span,
    )  # fmt: skip


def _with_child(parent: Stmt, old: Stmt, new: Stmt | None) -> Stmt | None:
    """`parent` with its child `old` replaced, or taken out; None when nothing is left of `parent`."""
    if isinstance(parent, n.BlockRealize):
        return with_block(parent, with_block_body(parent.block, seq(new)))
    if isinstance(parent, n.SeqStmt):
        rest = [new if child is old else child for child in parent.seq]
        return seq(*rest) if any(child is not None for child in rest) else None
    if isinstance(parent, n.For):
        return None if new is None else with_body(parent, new)
    if new is None and not isinstance(parent, n.IfThenElse):
        return None
    if new is None:
        new = seq()

    def swap(child: Node) -> Node:
        return new if child is old else child

    return map_children(parent, swap)


def replace_at(path: Path, new: Stmt | None) -> Stmt:
    """Return the root with the last statement of `path` replaced by `new`.
    None removes it, together with loops that are then empty."""
    current: Stmt | None = new
    for position in range(len(path) - 2, -1, -1):
        current = _with_child(path[position], path[position + 1], current)
    assert current is not None
    return current


def edit(stmt: Stmt, edits: Mapping[Stmt, Stmt | None]) -> Stmt | None:
    """Return `stmt` with the keys of `edits` replaced by their values.
    None removes a statement, and loops that are then empty. Block bodies are not entered."""
    if stmt in edits:
        return edits[stmt]
    if isinstance(stmt, n.BlockRealize):
        return stmt
    if isinstance(stmt, n.For):
        body = edit(stmt.body, edits)
        return stmt if body is stmt.body else None if body is None else with_body(stmt, body)
    if isinstance(stmt, n.SeqStmt):
        parts = [edit(child, edits) for child in stmt.seq]
        if all(part is child for part, child in zip(parts, stmt.seq)):
            return stmt
        return seq(*parts) if any(part is not None for part in parts) else None

    def go(child: Node) -> Node:
        if not isinstance(child, Stmt):
            return child
        new = edit(child, edits)
        return seq() if new is None else new

    return map_children(stmt, go)


def nest(loops: Sequence[n.For], body: Stmt) -> Stmt:
    """`loops`, outermost first, around `body`."""
    for loop in reversed(loops):
        body = with_body(loop, body)
    return body


# ------------------------------------------------------------------------------------- text


def tree_text(root: Stmt, mark: n.Var | str | None = None) -> str:
    """The loop nest in one line a loop or block; `mark` is the loop or block to point at.

    for i_0 in 16 parallel:
      block C_init
      for k in 512:                 <--
        block C_update
    """
    lines: list[str] = []
    stack: list[tuple[Stmt, int]] = [(root, 0)]
    while stack:
        node, depth = stack.pop()
        line = _line(node)
        if line is not None and not (isinstance(node, n.BlockRealize) and depth == 0):
            hit = (isinstance(node, n.For) and node.loop_var is mark) or (
                isinstance(node, n.BlockRealize) and node.block.name_hint == mark
            )
            indented = "  " * (depth - 1) + line
            lines.append(f"{indented:<34}  <--" if hit else indented)
        deeper = depth + (line is not None)
        stack.extend((child, deeper) for child in reversed(inner(node)))
    return "\n".join(lines)


def _line(node: Stmt) -> str | None:
    match node:
        case n.For():
            kind = "" if node.kind is n.ForKind.SERIAL else f" {node.kind.value}"
            if node.thread_binding is not None:
                kind = f" {node.thread_binding.thread_tag}"
            return f"for {node.loop_var.name} in {extent_text(node.extent)}{kind}:"
        case n.BlockRealize():
            return f"block {node.block.name_hint}"
        case n.IfThenElse():
            return "if ...:"
        case n.While():
            return "while ...:"
    return None


def extent_text(extent: n.PrimExpr) -> str:
    value = ops.as_int(extent)
    if value is not None:
        return str(value)
    return extent.name if isinstance(extent, n.Var) else "(expression)"
