"""Comparing IR of any dialect by structure.

Equal up to the names of variables, buffers and blocks, and up to spans.

What a node class declares decides: `DEFINES`, `UNCOMPARED` and `BY_IDENTITY` (see `compiler.ir.base`), and for
variables and buffers what `Symbol` asks of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from compiler.ir.base import GlobalVar, Node, Op, Symbol
from compiler.ir.function import BaseFunc
from compiler.ir.module import IRModule
from compiler.ir.object_path import ObjectPath, ObjectPathPair

_FIELDS: dict[type[Node], tuple[str, ...]] = {}


def structural_equal(a: Any, b: Any, map_free_vars: bool = False) -> bool:
    """Whether `a` and `b` (nodes, modules, or attribute values) have the same structure.

    Variables and buffers that both sides define in the same place correspond. One that is defined nowhere
    is equal only to itself, or with `map_free_vars` to one of the same type used in the same places.
    """
    return _Matcher(map_free_vars).equal(a, b)


class StructuralDifference(AssertionError, ValueError):
    """Two nodes that should have the same structure and do not."""


def assert_structural_equal(a: Any, b: Any, map_free_vars: bool = False) -> None:
    """Raise StructuralDifference unless `a` and `b` have the same structure.
    The error names where they differ first."""
    matcher = _Matcher(map_free_vars)
    if matcher.equal(a, b) or matcher.difference is None:
        return
    paths, x, y = matcher.difference
    raise StructuralDifference(f"the two differ at {paths.lhs_path}:\n--- left\n{_shown(x)}\n--- right\n{_shown(y)}")


def get_first_structural_mismatch(a: Any, b: Any, map_free_vars: bool = False) -> ObjectPathPair | None:
    """Where `a` and `b` differ first, as a path in each of them; None when they have the same structure."""
    matcher = _Matcher(map_free_vars)
    if matcher.equal(a, b) or matcher.difference is None:
        return None
    return matcher.difference[0]


def _shown(value: Any) -> str:
    lines = repr(value).splitlines()
    return "\n".join([*lines[:20], "..."] if len(lines) > 20 else lines) + f"    ({type(value).__name__})"


def _key(key: Any) -> Any:
    """Return what a path calls a map's key."""
    return key.name_hint if isinstance(key, GlobalVar) else key


def structural_hash(node: Any, map_free_vars: bool = False) -> int:
    """A 64-bit hash, equal for structurally equal nodes and the same in every process.

    It differs between processes only if free variables take part without `map_free_vars`, because identity tells them
    apart.
    """
    tokens: list[str] = []
    _Tokens(tokens, map_free_vars).add(node)
    digest = hashlib.sha256("\x1f".join(tokens).encode()).digest()
    return int.from_bytes(digest[:8], "little", signed=True)


def _fields(cls: type[Node]) -> tuple[str, ...]:
    """The fields of a node class that are compared."""
    names = _FIELDS.get(cls)
    if names is None:
        declared: list[str] = [f.name for f in fields(cls)] if is_dataclass(cls) else []
        names = _FIELDS[cls] = tuple(name for name in declared if name not in cls.UNCOMPARED)
    return names


# ----------------------------------------------------------------------------------- equality


_Step = tuple[Callable[..., ObjectPath], Any]
"""How to make one step of a path, and of what."""
_MISSING_ENTRY: _Step = (lambda path, _: path.missing_map_entry(), None)


def _path(steps: Sequence[_Step]) -> ObjectPath:
    path: ObjectPath = ObjectPath.root()
    for make, key in steps:
        path = make(path, key)
    return path


class _Matcher:
    """Matches two trees, keeping which variable and buffer of one stands for which of the other."""

    def __init__(self, map_free: bool) -> None:
        self._map_free = map_free
        self._forward: dict[Node, Node] = {}
        self._backward: dict[Node, Node] = {}
        self._path: list[_Step] = []
        self.difference: tuple[ObjectPathPair, Any, Any] | None = None  # of the first one, paths and what is there

    def equal(self, a: Any, b: Any) -> bool:
        same = self._equal(a, b)
        if not same:
            self._note((), (), a, b)
        return same

    def _note(self, left: tuple[_Step, ...], right: tuple[_Step, ...], a: Any, b: Any) -> None:
        """Keep the difference between `a` and `b`, unless one was kept before.
        The steps lead from here to it."""
        if self.difference is None:
            self.difference = ObjectPathPair(_path((*self._path, *left)), _path((*self._path, *right))), a, b

    def _at(self, kind: Callable[..., ObjectPath], key: Any, a: Any, b: Any) -> bool:
        """Whether the parts of both sides that a step of that kind leads to are equal."""
        self._path.append((kind, key))
        same = self.equal(a, b)
        self._path.pop()
        return same

    def _equal(self, a: Any, b: Any) -> bool:
        if isinstance(a, Symbol):
            return isinstance(b, Symbol) and self._same_use(a, b)
        if isinstance(a, tuple | list) and isinstance(b, tuple | list):
            return self._same_sequence(a, b)
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            return self._same_mapping(a, b)
        if isinstance(a, str) and isinstance(b, str):
            return a == b
        if type(a) is not type(b):
            return False
        match a:
            case Op() | GlobalVar():
                return bool(a == b)
            case BaseFunc() if self._path and self._path[-1][0] is ObjectPath.map_value:
                self._forward, self._backward = {}, {}  # functions of a module share no variables
                return self._same_node(a, b)
            case IRModule():
                return all(
                    self._at(ObjectPath.attr, name, getattr(a, name), getattr(b, name))
                    for name in ("functions", "attrs", "global_infos")
                )
            case float():
                return repr(a) == repr(b)
            case Node():
                return self._same_node(a, b)
        return a is b or bool(a == b)

    def _same_mapping(self, a: Mapping[Any, Any], b: Mapping[Any, Any]) -> bool:
        for key, value in a.items():
            if key not in b:
                self._note(((ObjectPath.map_value, _key(key)),), (_MISSING_ENTRY,), a, b)
                return False
            if not self._at(ObjectPath.map_value, _key(key), value, b[key]):
                return False
        for key in b:
            if key not in a:
                self._note((_MISSING_ENTRY,), ((ObjectPath.map_value, _key(key)),), a, b)
                return False
        return True

    def _same_sequence(self, a: Sequence[Any], b: Sequence[Any]) -> bool:
        if not all(self._at(ObjectPath.array_index, i, x, y) for i, (x, y) in enumerate(zip(a, b))):
            return False
        if len(a) != len(b):
            end = min(len(a), len(b))
            there, missing = ((ObjectPath.array_index, end),), ((ObjectPath.missing_array_element, end),)
            self._note(there if len(a) > end else missing, there if len(b) > end else missing, a, b)
        return len(a) == len(b)

    def _same_node(self, a: Node, b: Any) -> bool:
        ours, theirs = list(a.definitions()), list(b.definitions())
        if len(ours) != len(theirs):
            return False
        if len(ours) > 1:  # a parameter may use a size that a later one introduces
            for x, y in zip(ours, theirs):
                self._introduce(x, y)
        if not all(map(self._same_definition, ours, theirs)):
            return False
        by_identity = a.BY_IDENTITY
        for name in _fields(type(a)):
            x, y = getattr(a, name), getattr(b, name)
            if name in by_identity:
                if x is not y:
                    return False
            elif not self._at(ObjectPath.attr, name, x, y):
                return False
        return True

    def _same_definition(self, a: Symbol, b: Symbol) -> bool:
        """Whether two symbols, each defined here, correspond; from here on they stand for each other."""
        parts = a.parts()
        if parts and self._known(a, b):
            return self._forward.get(a) is b
        if not a.may_stand_for(b):
            return False
        self._introduce(a, b)
        return self._same_parts(parts, b.parts()) and self._pair(a, b)

    def _introduce(self, a: Symbol, b: Symbol) -> None:
        """Pair the symbols that two definitions are the first to name."""
        for x, y in zip(a.introduces(), b.introduces()):
            if not self._known(x, y) and not x.parts() and x.may_stand_for(y):
                self._pair(x, y)

    def _same_use(self, a: Symbol, b: Symbol) -> bool:
        """Whether two symbols that are used, not defined, here stand for each other."""
        if self._known(a, b):
            return self._forward.get(a) is b
        parts = a.parts()
        if a is b:
            return all(self._same_use(x, x) for x in parts if isinstance(x, Symbol)) and self._pair(a, b)
        if not a.VIEW:
            return self._map_free and self._same_definition(a, b)
        return a.may_stand_for(b) and self._same_parts(parts, b.parts()) and self._pair(a, b)

    def _same_parts(self, a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
        return all(self._same_use(x, y) if isinstance(x, Symbol) else self.equal(x, y) for x, y in zip(a, b))

    def _known(self, a: Node, b: Node) -> bool:
        return a in self._forward or b in self._backward

    def _pair(self, a: Node, b: Node) -> bool:
        if self._known(a, b):
            return self._forward.get(a) is b and self._backward.get(b) is a
        self._forward[a], self._backward[b] = b, a
        return True


# -------------------------------------------------------------------------------------- hashing


class _Tokens:
    """Writes a tree as a list of words, variables and buffers numbered in order of definition."""

    def __init__(self, out: list[str], map_free: bool) -> None:
        self._out = out
        self._map_free = map_free
        self._numbers: dict[Node, int] = {}
        self._coming: set[Node] = set()  # sizes that a later definition of the same node introduces

    def add(self, value: Any) -> None:
        match value:
            case Symbol():
                self._use(value)
            case tuple() | list():
                self._out.append(f"({len(value)}")
                for item in value:
                    self.add(item)
            case Mapping():
                self._mapping(value)
            case Op():
                self._out.append(value.name)
            case GlobalVar():
                self._out.append(f"@{value.name_hint}")
            case IRModule():
                for var in sorted(value.functions, key=str):
                    self._numbers = {}  # functions of a module share no variables
                    self._out.append(str(var))
                    self.add(value.functions[var])
                self._mapping(value.attrs)
                self._mapping(value.global_infos)
            case Node():
                self._node(value)
            case _:
                self._out.append(repr(value) if isinstance(value, bool | int | float | str) else str(value))

    def _node(self, node: Node) -> None:
        self._out.append(type(node).__name__)
        definitions = list(node.definitions())
        if len(definitions) > 1:
            self._coming.update(*(item.introduces() for item in definitions if item.parts()))
        for item in definitions:
            if item.parts():
                for symbol in item.introduces():
                    self._number(symbol)
                self._use(item, defined=True)
            else:
                self._out.append(f"{_words(item)}:{self._number(item)}")
        for name in _fields(type(node)):
            value = getattr(node, name)
            self.add(id(value) if name in node.BY_IDENTITY else value)

    def _mapping(self, mapping: Mapping[Any, Any]) -> None:
        for key in sorted(mapping, key=str):
            self._out.append(str(key))
            self.add(mapping[key])

    def _number(self, node: Node) -> int:
        return self._numbers.setdefault(node, len(self._numbers))

    def _use(self, symbol: Symbol, *, defined: bool = False) -> None:
        """Write a symbol at a use. One with parts of its own is spelled out the first time."""
        parts, known = symbol.parts(), symbol in self._numbers
        if parts and known:
            self._out.append(f"{type(symbol).__name__.lower()}#{self._numbers[symbol]}")
        elif parts and (defined or self._map_free or symbol.VIEW):
            self._out.append(_words(symbol))
            for part in parts:
                self.add(part)
            self._number(symbol)
        elif known or (not parts and (self._map_free or symbol in self._coming)):
            self._out.append(f"{_words(symbol)}#{self._number(symbol)}")
        else:
            self._out.append(f"free {id(symbol)}")


def _words(symbol: Symbol) -> str:
    return " ".join(map(str, symbol.traits()))
