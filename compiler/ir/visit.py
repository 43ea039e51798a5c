"""Walking and rebuilding trees of any dialect.

All recursion over IR goes through `map_children` and `children`.

`map_children(node, f)` rebuilds a node from `f(child)` and returns the same object when no child changed,
so an untouched subtree costs no allocation and stays identical.

Children are the fields that the class of a node declares (`Node.CHILDREN`). A class may also define the methods
`child_list(self)` and `map_children(self, f)`: to be quicker, or for what a declaration cannot say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from operator import is_not
from typing import TypeVar

from compiler.errors import IRError
from compiler.ir.base import Node

NodeT = TypeVar("NodeT", bound=Node)
Fn = Callable[[Node], Node]

# How the children of a class are found, noted when the first node of it is seen.
_LEAF = 1  # it has none
_PAIR = 2  # they are the fields a and b, and the class is made from (a, b, span), as most expressions
_OWN = 3  # by its own methods
_DECLARED = 4  # by the fields it declares
_plans: dict[type, int] = {}
_init_names: dict[type, tuple[str, ...]] = {}


def _plan(cls: type) -> int:
    if not issubclass(cls, Node):
        raise IRError(f"{cls.__name__} is no IR node")
    if hasattr(cls, "map_children"):
        found = _OWN
    elif not cls.CHILDREN:
        found = _LEAF
    elif cls.CHILDREN == ("a", "b") and is_dataclass(cls) and _arguments(cls) == ("a", "b", "span"):
        found = _PAIR
    else:
        found = _DECLARED
    _plans[cls] = found
    return found


def _arguments(cls: type) -> tuple[str, ...]:
    """The arguments of the constructor."""
    names = _init_names.get(cls)
    if names is None:
        names = _init_names[cls] = tuple(f.name for f in fields(cls) if f.init)
    return names


def children(node: Node) -> Iterator[Node]:
    """The direct children of `node`, in evaluation order.

    What a node defines (loop variables, buffers) is no child of it. Carriers are looked into: the ranges of regions
    and of iteration variables' domains are yielded as their min and extent.
    """
    return iter(child_list(node))


def child_list(node: Node) -> list[Node]:
    """`children` as a list of its own."""
    cls = type(node)
    plan = _plans.get(cls) or _plan(cls)
    if plan == _OWN:
        return node.child_list()  # type: ignore[attr-defined, no-any-return]
    found: list[Node] = []
    for name in cls.CHILDREN:
        value = getattr(node, name)
        if value is not None:
            _gather(value, found)
    return found


def _gather(value: object, found: list[Node]) -> None:
    if isinstance(value, Node):
        if value.CARRIER:
            found += child_list(value)
        else:
            found.append(value)
    elif isinstance(value, tuple):
        for item in value:
            _gather(item, found)


def map_children(node: NodeT, f: Fn) -> NodeT:
    """`node` with every child replaced by `f(child)`; the same object when nothing changed."""
    cls = type(node)
    plan = _plans.get(cls) or _plan(cls)
    if plan == _PAIR:
        a, b = f(node.a), f(node.b)  # type: ignore[attr-defined]
        if a is node.a and b is node.b:  # type: ignore[attr-defined]
            return node
        return cls(a, b, node.span)  # type: ignore[call-arg,attr-defined]
    if plan == _LEAF:
        return node
    if plan == _OWN:
        return node.map_children(f)  # type: ignore[attr-defined, no-any-return]
    changed: dict[str, object] = {}
    for name in cls.CHILDREN:
        old = getattr(node, name)
        if old is None:
            continue
        if isinstance(old, Node):
            new: object = map_children(old, f) if old.CARRIER else f(old)
        else:
            new = map_value(old, f)
        if new is not old:
            changed[name] = new
    return replace(node, **changed) if changed else node


def map_value(value: object, f: Fn) -> object:
    """Return what a field holds, with the nodes in it replaced by `f(node)`.
    It is the same object when nothing changed."""
    if isinstance(value, Node):
        return map_children(value, f) if value.CARRIER else f(value)
    if isinstance(value, tuple):
        items = tuple([map_value(item, f) for item in value])
        return items if any(map(is_not, items, value)) else value
    return value


def replace(node: NodeT, **changes: object) -> NodeT:
    """`node` with the named fields replaced."""
    cls = type(node)
    names = _init_names.get(cls) or _arguments(cls)
    return cls(*[changes[name] if name in changes else getattr(node, name) for name in names])


def walk(node: Node) -> Iterator[Node]:
    """Every node under `node`, itself first (pre-order)."""
    stack = [node]
    pop, push = stack.pop, stack.append
    while stack:
        current = pop()
        yield current
        cls = type(current)
        plan = _plans.get(cls) or _plan(cls)
        if plan == _PAIR:
            push(current.b)  # type: ignore[attr-defined]
            push(current.a)  # type: ignore[attr-defined]
        elif plan != _LEAF:
            stack += child_list(current)[::-1]


def transform(node: NodeT, pre: Callable[[Node], Node | None] | None = None,
              post: Callable[[Node], Node | None] | None = None) -> Node:  # fmt: skip
    """Rebuild bottom-up.
    `pre(node)` may return a replacement, whose children are not visited. `post(node)` sees each rebuilt node and may
    replace it. None means: keep."""

    def go(current: Node) -> Node:
        if pre is not None and (early := pre(current)) is not None:
            return early
        rebuilt = map_children(current, go)
        if post is not None and (late := post(rebuilt)) is not None:
            return late
        return rebuilt

    return go(node)
