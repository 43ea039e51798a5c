"""Walking and rebuilding trees. All recursion over IR goes through `map_children` and `children`.

`map_children(node, f)` rebuilds a node from `f(child)` and returns the same object when no child changed,
so an untouched subtree costs no allocation and stays identical.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from operator import is_not
from typing import Any, TypeVar

from compiler.errors import IRError
from compiler.ir.base import Node
from compiler.tir import nodes as n
from compiler.tir.nodes import PrimExpr, Stmt

NodeT = TypeVar("NodeT", bound=Node)
Fn = Callable[[Node], Node]


def children(node: Node) -> Iterator[Node]:
    """The direct expression and statement children of `node`, in evaluation order.

    Loop variables, buffers and block iteration variables are definitions, not children; the ranges of
    regions and of iteration variables' domains are yielded as their min and extent.
    """
    return iter(_children(node))


def _children(node: Node) -> list[Node]:
    cls = type(node)
    if cls is n.BufferLoad:
        return [*node.indices] if node.predicate is None else [*node.indices, node.predicate]  # type: ignore[attr-defined]
    if cls is n.For:
        return [node.min, node.extent, node.body]  # type: ignore[attr-defined]
    if cls is n.SeqStmt:
        return [*node.seq]  # type: ignore[attr-defined]
    found: list[Node] = []
    for name in _FIELDS[cls]:
        value = getattr(node, name)
        if isinstance(value, PrimExpr | Stmt):
            found.append(value)
        elif value is not None:
            _gather(value, found)
    return found


def _gather(value: object, found: list[Node]) -> None:
    match value:
        case tuple():
            for item in value:
                _gather(item, found)
        case PrimExpr() | Stmt():
            found.append(value)
        case n.Range():
            found += (value.min, value.extent)
        case n.BufferRegion():
            for r in value.region:
                found += (r.min, r.extent)
        case n.MatchBufferRegion():
            _gather(value.source, found)
        case n.IterVar() if value.dom is not None:
            found += (value.dom.min, value.dom.extent)
        case _:
            pass


def _map_value(value: object, f: Fn) -> object:
    match value:
        case None:
            return None
        case PrimExpr() | Stmt():
            return f(value)
        case tuple():
            items = tuple([_map_value(item, f) for item in value])
            return items if any(map(is_not, items, value)) else value
        case n.Range():
            low, extent = f(value.min), f(value.extent)
            if low is value.min and extent is value.extent:
                return value
            assert isinstance(low, PrimExpr)
            assert isinstance(extent, PrimExpr)
            return n.Range(low, extent, value.span)
        case n.BufferRegion():
            region = _map_value(value.region, f)
            return value if region is value.region else n.BufferRegion(value.buffer, region)  # type: ignore[arg-type]
        case n.MatchBufferRegion():
            source = _map_value(value.source, f)
            return value if source is value.source else n.MatchBufferRegion(value.buffer, source)  # type: ignore[arg-type]
        case n.IterVar():
            dom = _map_value(value.dom, f)
            if dom is value.dom:
                return value
            return n.IterVar(dom, value.var, value.iter_type, value.thread_tag, value.span)  # type: ignore[arg-type]
    return value


# Fields that hold children, by node type; the rest are definitions or plain data.
_FIELDS: dict[type, tuple[str, ...]] = {
    n.Var: (), n.SizeVar: (), n.IntImm: (), n.FloatImm: (), n.StringImm: (),
    n.Cast: ("value",),
    n.Not: ("a",),
    n.Select: ("condition", "true_value", "false_value"),
    n.Ramp: ("base", "stride"),
    n.Broadcast: ("value",),
    n.Shuffle: ("vectors", "indices"),
    n.Let: ("value", "body"),
    n.Call: ("args",),
    n.BufferLoad: ("indices", "predicate"),
    n.ProducerLoad: ("indices",),
    n.Reduce: ("axis", "source", "init", "condition"),
    n.BufferStore: ("value", "indices", "predicate"),
    n.For: ("min", "extent", "body"),
    n.While: ("condition", "body"),
    n.SeqStmt: ("seq",),
    n.IfThenElse: ("condition", "then_case", "else_case"),
    n.LetStmt: ("value", "body"),
    n.AttrStmt: ("value", "body"),
    n.AssertStmt: ("condition", "message", "body"),
    n.Evaluate: ("value",),
    n.Allocate: ("extents", "condition", "body"),
    n.DeclBuffer: ("body",),
    n.Block: ("iter_vars", "reads", "writes", "match_buffers", "init", "body"),
    n.BlockRealize: ("iter_values", "predicate", "block"),
}  # fmt: skip
_BINARY = (
    n.Add, n.Sub, n.Mul, n.Div, n.Mod, n.FloorDiv, n.FloorMod, n.Min, n.Max,
    n.EQ, n.NE, n.LT, n.LE, n.GT, n.GE, n.And, n.Or,
)  # fmt: skip
_FIELDS.update(dict.fromkeys(_BINARY, ("a", "b")))

_INIT: dict[type, tuple[str, ...]] = {
    cls: tuple(f.name for f in cls.__dataclass_fields__.values() if f.init)  # type: ignore[attr-defined]
    for cls in _FIELDS
}


def map_children(node: NodeT, f: Fn) -> NodeT:
    """`node` with every child replaced by `f(child)`; the same object when nothing changed."""
    cls = type(node)
    if cls in _BINARY_SET:
        a, b = f(node.a), f(node.b)  # type: ignore[attr-defined]
        if a is node.a and b is node.b:  # type: ignore[attr-defined]
            return node
        return cls(a, b, node.span)  # type: ignore[call-arg,attr-defined]
    if cls in _LEAVES:
        return node
    rebuild = _REBUILD.get(cls)
    if rebuild is not None:
        return rebuild(node, f)  # type: ignore[no-any-return]
    fields = _FIELDS.get(cls)
    if fields is None:
        raise IRError(f"map_children has no rule for {cls.__name__}")
    changed: dict[str, object] = {}
    for name in fields:
        old = getattr(node, name)
        new = _map_value(old, f)
        if cls is n.SeqStmt and new is not old:
            new = _flat(new)  # type: ignore[arg-type]
        if new is not old:
            changed[name] = new
    return replace(node, **changed) if changed else node


def _flat(stmts: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """A sequence of statements without sequences in it, so that a function has one text and a text one function."""
    return tuple(part for stmt in stmts for part in (stmt.seq if isinstance(stmt, n.SeqStmt) else (stmt,)))


_BINARY_SET = frozenset(_BINARY)
_LEAVES = frozenset(cls for cls, fields in _FIELDS.items() if not fields)
_WITH_BODY = frozenset({n.For, n.While, n.LetStmt, n.AttrStmt, n.AssertStmt, n.Allocate, n.DeclBuffer})
_NO_STMTS = frozenset({n.BufferStore, n.Evaluate})


# The same for the types that most of a function is made of, without looking their fields up.


def _rebuild_load(node: n.BufferLoad, f: Fn) -> n.BufferLoad:
    indices = tuple([f(index) for index in node.indices])
    predicate = None if node.predicate is None else f(node.predicate)
    if predicate is node.predicate and not any(map(is_not, indices, node.indices)):
        return node
    return n.BufferLoad(node.buffer, indices, predicate, node.span)  # type: ignore[arg-type]


def _rebuild_store(node: n.BufferStore, f: Fn) -> n.BufferStore:
    value = f(node.value)
    indices = tuple([f(index) for index in node.indices])
    predicate = None if node.predicate is None else f(node.predicate)
    if value is node.value and predicate is node.predicate and not any(map(is_not, indices, node.indices)):
        return node
    return n.BufferStore(node.buffer, value, indices, predicate, node.span)  # type: ignore[arg-type]


def _rebuild_for(node: n.For, f: Fn) -> n.For:
    low, extent, body = f(node.min), f(node.extent), f(node.body)
    if low is node.min and extent is node.extent and body is node.body:
        return node
    bounds: tuple[PrimExpr, PrimExpr] = (low, extent)  # type: ignore[assignment]
    rest = (node.thread_binding, node.annotations, node.span)
    return n.For(node.loop_var, *bounds, node.kind, body, *rest)  # type: ignore[arg-type]


def _rebuild_seq(node: n.SeqStmt, f: Fn) -> n.SeqStmt:
    parts = tuple([f(stmt) for stmt in node.seq])
    if not any(map(is_not, parts, node.seq)):
        return node
    return n.SeqStmt(_flat(parts), node.span)  # type: ignore[arg-type]


_REBUILD: dict[type, Callable[[Any, Fn], Any]] = {
    n.BufferLoad: _rebuild_load,
    n.BufferStore: _rebuild_store,
    n.For: _rebuild_for,
    n.SeqStmt: _rebuild_seq,
}


def replace(node: NodeT, **changes: object) -> NodeT:
    """`node` with the named fields replaced."""
    cls = type(node)
    names = _INIT.get(cls) or tuple(f.name for f in cls.__dataclass_fields__.values() if f.init)  # type: ignore[attr-defined]
    return cls(*[changes[name] if name in changes else getattr(node, name) for name in names])


def walk(node: Node) -> Iterator[Node]:
    """Every expression and statement under `node`, itself first (pre-order)."""
    stack = [node]
    pop, push = stack.pop, stack.append
    while stack:
        current = pop()
        yield current
        cls = type(current)
        if cls in _BINARY_SET:
            push(current.b)  # type: ignore[attr-defined]
            push(current.a)  # type: ignore[attr-defined]
        elif cls not in _LEAVES:
            stack += _children(current)[::-1]


def walk_stmts(node: Node) -> Iterator[Stmt]:
    """Every statement under `node`, itself first (pre-order): what `walk` gives, without the expressions."""
    stack: list[Node] = [node]
    pop, push = stack.pop, stack.append
    while stack:
        current = pop()
        cls = type(current)
        if cls is n.SeqStmt:
            stack += current.seq[::-1]  # type: ignore[attr-defined]
        elif cls in _WITH_BODY:
            push(current.body)  # type: ignore[attr-defined]
        elif cls not in _NO_STMTS:
            if isinstance(current, PrimExpr):
                continue
            stack += [child for child in _children(current) if isinstance(child, Stmt)][::-1]
        yield current  # type: ignore[misc]


def transform(node: NodeT, pre: Callable[[Node], Node | None] | None = None,
              post: Callable[[Node], Node | None] | None = None) -> Node:  # fmt: skip
    """Rebuild bottom-up. `pre(node)` may return a replacement, which is not descended into; `post(node)`
    sees each rebuilt node and may replace it. None means: keep."""

    def go(current: Node) -> Node:
        if pre is not None and (early := pre(current)) is not None:
            return early
        rebuilt = map_children(current, go)
        if post is not None and (late := post(rebuilt)) is not None:
            return late
        return rebuilt

    return go(node)


def substitute(node: NodeT, mapping: Mapping[n.Var, PrimExpr]) -> NodeT:
    """`node` with variables replaced. Definitions (loop and iteration variables) are left alone."""
    if not mapping:
        return node

    def go(current: Node) -> Node:
        if isinstance(current, n.Var):
            return mapping.get(current, current)
        return map_children(current, go)

    return go(node)  # type: ignore[return-value]


def free_vars(node: Node) -> set[n.Var]:
    """Variables used under `node` and defined nowhere under it."""
    used: set[n.Var] = set()
    defined: set[n.Var] = set()
    for current in walk(node):
        match current:
            case n.Var():
                used.add(current)
            case n.For():
                defined.add(current.loop_var)
            case n.Let() | n.LetStmt():
                defined.add(current.var)
            case n.Block():
                defined.update(iv.var for iv in current.iter_vars)
            case n.Reduce():
                defined.update(iv.var for iv in current.axis)
            case n.Allocate():
                defined.add(current.buffer_var)
            case _:
                pass
    return used - defined


def seq(*stmts: Stmt | None) -> Stmt:
    """The statements one after another, nested sequences flattened and Nones dropped."""
    flat: list[Stmt] = []
    for stmt in stmts:
        if isinstance(stmt, n.SeqStmt):
            flat.extend(stmt.seq)
        elif stmt is not None:
            flat.append(stmt)
    if not flat:
        return n.Evaluate(n.IntImm("int32", 0))
    return flat[0] if len(flat) == 1 else n.SeqStmt(tuple(flat))
