"""Comparing IR by structure: equal up to the names of variables, buffers and blocks, and up to spans."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from compiler.ir.base import GlobalVar, Node, Op
from compiler.ir.module import IRModule
from compiler.ir.object_path import ObjectPath, ObjectPathPair
from compiler.tir import nodes as n

_IGNORED = frozenset({"span", "name", "name_hint"})
_FIELDS: dict[type, tuple[str, ...]] = {}


def structural_equal(a: Any, b: Any, map_free_vars: bool = False) -> bool:
    """Whether `a` and `b` (nodes, modules, or attribute values) have the same structure.

    Variables and buffers that both sides define in the same place correspond. One that is defined nowhere
    is equal only to itself, or with `map_free_vars` to one of the same type used in the same places.
    """
    return _Matcher(map_free_vars).equal(a, b)


def assert_structural_equal(a: Any, b: Any, map_free_vars: bool = False) -> None:
    """Raise AssertionError, naming where they differ first, unless `a` and `b` have the same structure."""
    matcher = _Matcher(map_free_vars)
    if matcher.equal(a, b) or matcher.difference is None:
        return
    paths, x, y = matcher.difference
    raise AssertionError(f"the two differ at {paths.lhs_path}:\n--- left\n{_shown(x)}\n--- right\n{_shown(y)}")


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
    """What a path calls a map's key."""
    return key.name_hint if isinstance(key, GlobalVar) else key


def structural_hash(node: Any, map_free_vars: bool = False) -> int:
    """A 64-bit hash, equal for structurally equal nodes; the same in every process unless free variables,
    which are told apart by identity, take part without `map_free_vars`."""
    tokens: list[str] = []
    _Tokens(tokens, map_free_vars).add(node)
    digest = hashlib.sha256("\x1f".join(tokens).encode()).digest()
    return int.from_bytes(digest[:8], "little", signed=True)


# ------------------------------------------------------------------------ what a node is made of


def _fields(cls: type) -> tuple[str, ...]:
    names = _FIELDS.get(cls)
    if names is None:
        all_names = getattr(cls, "__dataclass_fields__", ())
        names = _FIELDS[cls] = tuple(name for name in all_names if name not in _IGNORED)
    return names


def _definitions(node: Node) -> Iterator[n.Var | n.Buffer]:
    """The variables and buffers that `node` defines, in a fixed order."""
    match node:
        case n.For():
            yield node.loop_var
            if node.thread_binding is not None:
                yield node.thread_binding.var
        case n.Let() | n.LetStmt():
            yield node.var
        case n.Allocate():
            yield node.buffer_var
        case n.DeclBuffer():
            yield node.buffer
        case n.AttrStmt(node=n.IterVar(var=var), attr_key="thread_extent"):
            yield var
        case n.Reduce():
            yield from (axis.var for axis in node.axis)
        case n.CommReducer():
            yield from (*node.lhs, *node.rhs)
        case n.Block():
            yield from (iter_var.var for iter_var in node.iter_vars)
            yield from node.alloc_buffers
            yield from (match.buffer for match in node.match_buffers)
        case n.PrimFunc():
            yield from node.params
            yield from (node.buffer_map[p] for p in node.params if p in node.buffer_map)
        case _:
            pass


def _layout(buffer: n.Buffer) -> tuple[Any, ...]:
    return buffer.shape, buffer.strides, buffer.elem_offset


def _plain(buffer: n.Buffer) -> tuple[Any, ...]:
    return buffer.dtype, buffer.scope, buffer.data_alignment, buffer.offset_factor


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
        """Keep the difference between `a` and `b`, found after these steps from here, if it is the first."""
        if self.difference is None:
            self.difference = ObjectPathPair(_path((*self._path, *left)), _path((*self._path, *right))), a, b

    def _at(self, kind: Callable[..., ObjectPath], key: Any, a: Any, b: Any) -> bool:
        """Whether the parts of both sides that a step of that kind leads to are equal."""
        self._path.append((kind, key))
        same = self.equal(a, b)
        self._path.pop()
        return same

    def _equal(self, a: Any, b: Any) -> bool:
        if isinstance(a, n.Var):
            return isinstance(b, n.Var) and self._same_var(a, b)
        if isinstance(a, n.Buffer):
            return isinstance(b, n.Buffer) and self._same_buffer(a, b, defined=False)
        if isinstance(a, tuple | list) and isinstance(b, tuple | list):
            return type(a) is type(b) and self._same_sequence(a, b)
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            return self._same_mapping(a, b)
        if type(a) is not type(b):
            return False
        match a:
            case Op() | GlobalVar():
                return bool(a == b)
            case IRModule():
                return all(
                    self._at(ObjectPath.attr, name, getattr(a, name), getattr(b, name))
                    for name in ("functions", "attrs")
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
        ours, theirs = list(_definitions(a)), list(_definitions(b))
        if len(ours) != len(theirs) or not all(map(self._define, ours, theirs)):
            return False
        for name in _fields(type(a)):
            x, y = getattr(a, name), getattr(b, name)
            if name == "buffer_map":  # its keys and values are definitions
                continue
            if name == "producer":
                if x is not y:
                    return False
            elif not self._at(ObjectPath.attr, name, x, y):
                return False
        return True

    def _define(self, a: n.Var | n.Buffer, b: n.Var | n.Buffer) -> bool:
        if isinstance(a, n.Buffer) or isinstance(b, n.Buffer):
            both = isinstance(a, n.Buffer) and isinstance(b, n.Buffer)
            return both and self._same_buffer(a, b, defined=True)  # type: ignore[arg-type]
        if type(a) is not type(b) or a.dtype != b.dtype:
            return False
        return self._pair(a, b)

    def _pair(self, a: Node, b: Node) -> bool:
        if a in self._forward or b in self._backward:
            return self._forward.get(a) is b and self._backward.get(b) is a
        self._forward[a], self._backward[b] = b, a
        return True

    def _same_var(self, a: n.Var, b: n.Var) -> bool:
        if a in self._forward or b in self._backward:
            return self._forward.get(a) is b
        if a is b:
            return self._pair(a, b)
        return self._map_free and self._define(a, b)

    def _same_buffer(self, a: n.Buffer, b: n.Buffer, *, defined: bool) -> bool:
        if a in self._forward or b in self._backward:
            return self._forward.get(a) is b
        if a is b and not defined:
            return self._same_var(a.data, b.data) and self._pair(a, b)
        if _plain(a) != _plain(b) or len(a.shape) != len(b.shape):
            return False
        if defined:  # with the data, and the sizes and strides it is the first to name
            self._pair_new(a.data, b.data)
            for x, y in zip(_symbols(a), _symbols(b)):
                self._pair_new(x, y)
        return self._same_var(a.data, b.data) and self.equal(_layout(a), _layout(b)) and self._pair(a, b)

    def _pair_new(self, a: n.Var, b: n.Var) -> None:
        if a not in self._forward and b not in self._backward and a.dtype == b.dtype and type(a) is type(b):
            self._pair(a, b)


def _symbols(buffer: n.Buffer) -> list[n.Var]:
    offset = () if buffer.elem_offset is None else (buffer.elem_offset,)
    return [e for e in (*buffer.shape, *buffer.strides, *offset) if isinstance(e, n.Var)]


# -------------------------------------------------------------------------------------- hashing


class _Tokens:
    """Writes a tree as a list of words, variables and buffers numbered in order of definition."""

    def __init__(self, out: list[str], map_free: bool) -> None:
        self._out = out
        self._map_free = map_free
        self._numbers: dict[Node, int] = {}

    def add(self, value: Any) -> None:
        match value:
            case n.Var():
                self._out.append(self._var(value))
            case n.Buffer():
                self._buffer(value)
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
                self._mapping(value.functions)
                self._mapping(value.attrs)
            case Node():
                self._node(value)
            case _:
                self._out.append(repr(value) if isinstance(value, bool | int | float | str) else str(value))

    def _node(self, node: Node) -> None:
        self._out.append(type(node).__name__)
        for item in _definitions(node):
            if isinstance(item, n.Buffer):
                for var in (item.data, *_symbols(item)):
                    self._number(var)
                self._buffer(item)
            else:
                self._out.append(f"{item.dtype}:{self._number(item)}")
        for name in _fields(type(node)):
            if name != "buffer_map":
                value = getattr(node, name)
                self.add(id(value) if name == "producer" else value)

    def _mapping(self, mapping: Mapping[Any, Any]) -> None:
        for key in sorted(mapping, key=str):
            self._out.append(str(key))
            self.add(mapping[key])

    def _number(self, node: Node) -> int:
        return self._numbers.setdefault(node, len(self._numbers))

    def _var(self, var: n.Var) -> str:
        if var in self._numbers or self._map_free:
            return f"{var.dtype}#{self._number(var)}"
        return f"free {id(var)}"

    def _buffer(self, buffer: n.Buffer) -> None:
        if buffer in self._numbers:
            self._out.append(f"buffer#{self._numbers[buffer]}")
            return
        self._out.append(" ".join(map(str, _plain(buffer))))
        self.add(buffer.data)
        self.add(_layout(buffer))
        self._number(buffer)
