"""Python expressions of a text as TensorIR expressions."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from compiler.dtype import parse_dtype
from compiler.errors import IRError
from compiler.ir.base import GlobalVar
from compiler.ir.structural import structural_equal
from compiler.script.parser import ModuleName, Parser
from compiler.script.scope import Scope
from compiler.script.source import Source
from compiler.tir import hooks, ops
from compiler.tir import nodes as n
from compiler.tir.nodes import PrimExpr
from compiler.tir.nodes.buffer import StorageScope
from compiler.tir.text import vocabulary

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: partial(vocabulary.binary, n.Add),
    ast.Sub: partial(vocabulary.binary, n.Sub),
    ast.Mult: partial(vocabulary.binary, n.Mul),
    ast.Div: vocabulary.divide,
    ast.FloorDiv: partial(vocabulary.binary, n.FloorDiv),
    ast.Mod: partial(vocabulary.binary, n.FloorMod),
    ast.Pow: vocabulary.lookup("pow"),
    ast.LShift: vocabulary.lookup("shift_left"),
    ast.RShift: vocabulary.lookup("shift_right"),
    ast.BitAnd: vocabulary.lookup("bitwise_and"),
    ast.BitOr: vocabulary.lookup("bitwise_or"),
    ast.BitXor: vocabulary.lookup("bitwise_xor"),
}
_INTEGERS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: ops.add,
    ast.Sub: ops.sub,
    ast.Mult: ops.mul,
    ast.FloorDiv: ops.floordiv,
    ast.Mod: ops.floormod,
}
"""What operators do with two integer constants: nodes of such are written as calls, `T.Add(1, 2)`."""
_COMPARE: dict[type[ast.cmpop], type[n.BinaryOp]] = {
    ast.Eq: n.EQ,
    ast.NotEq: n.NE,
    ast.Lt: n.LT,
    ast.LtE: n.LE,
    ast.Gt: n.GT,
    ast.GtE: n.GE,
}


@dataclass(slots=True)
class BlockParts:
    """The statements at the head of a block, or of a function."""

    iter_vars: list[n.IterVar] = field(default_factory=list)
    values: list[n.PrimExpr] = field(default_factory=list)
    predicate: n.PrimExpr | None = None
    reads: tuple[n.BufferRegion, ...] | None = None
    writes: tuple[n.BufferRegion, ...] | None = None
    annotations: dict[str, Any] = field(default_factory=dict)
    allocated: list[n.Buffer] = field(default_factory=list)
    matched: list[n.MatchBufferRegion] = field(default_factory=list)
    init: n.Stmt | None = None
    realized: bool = True
    params: dict[n.Var, n.Buffer] = field(default_factory=dict)  # of a function
    attrs: dict[str, Any] = field(default_factory=dict)
    is_function: bool = False


class TirParser(Parser):
    """Reads a TensorIR function: its expressions here, its statements in `compiler.tir.text.parse_stmt`."""

    SPACE = "tir"
    EXPECTED = "write arithmetic, accesses A[i, j] and calls T.f(x)"

    def __init__(self, source: Source, scope: Scope) -> None:
        super().__init__(source, scope)
        self.loops: dict[n.Var, n.Range] = {}
        self.parts: list[BlockParts] = []
        self.params: tuple[n.Var, ...] = ()
        self.says_sblock = False  # a text of newer versions: a block's memory is `T.sblock_alloc_buffer` there
        self.written_again: set[str] = set()  # names that such a text gives another value: they stand for memory
        self.scalars: set[n.Buffer] = set()  # memory of one element that a name stands for
        self.sizes: dict[str, n.Var] = {}  # that strings in parameters name
        self.size_types: dict[str, str] = {}  # what the function says of the types of such

    @property
    def block(self) -> BlockParts:
        return self.parts[-1]

    # -------------------------------------------------------------------- values as expressions

    def expr(self, node: ast.AST) -> PrimExpr:
        """Return what an expression stands for, as an IR expression."""
        found = self.value(node)
        with self.source.at(node):
            return ops.as_expr(found)

    def exprs(self, node: ast.AST) -> tuple[PrimExpr, ...]:
        """A tuple or list of expressions; one expression is a tuple of itself."""
        found = self.value(node)
        items = found if isinstance(found, tuple | list) else (found,)
        with self.source.at(node):
            return tuple(map(ops.as_expr, items))

    def condition(self, node: ast.expr) -> PrimExpr:
        """An expression that is true or false."""
        found = self.expr(node)
        if found.dtype != "bool":
            self.fail(node, f"a condition is a bool, not {found.dtype}")
        return found

    def point(self, buffer: n.Buffer, node: ast.Subscript) -> tuple[PrimExpr, ...]:
        """The indices of an access; a slice of constant length is a vector."""
        items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if len(items) != len(buffer.shape):
            self.fail(node, f"buffer {buffer.name!r} has {len(buffer.shape)} dimensions, indexed with {len(items)}")
        return tuple(self._ramp(item) if isinstance(item, ast.Slice) else self._index(item) for item in items)

    def _index(self, node: ast.expr) -> PrimExpr:
        found = self.expr(node)
        if "int" not in found.dtype:
            self.fail(node, f"an index is an integer, not {found.dtype}")
        return found

    def _ramp(self, node: ast.Slice) -> PrimExpr:
        if node.upper is None:
            self.fail(node, "a slice says where it ends")
        low = ops.const(0) if node.lower is None else self._index(node.lower)
        step = ops.const(1) if node.step is None else self._index(node.step)
        low, high = ops.match_types(low, self._index(node.upper))
        length, stride = ops.as_int(hooks.arithmetic().simplify(extent(low, high))), ops.as_int(step)
        if length is None or stride is None or stride < 1 or length < 1:
            self.fail(node, "a vector has a constant, positive length", "write A[i:i + 8], or a loop")
        lanes = -(-length // stride)
        return low if lanes == 1 else n.Ramp(low, ops.cast(low.dtype, step), lanes)

    # ------------------------------------------------------------------ what the dialect decides

    def plain(self, value: Any) -> Any:
        return value.value if isinstance(value, n.IntImm) else value

    def unary(self, node: ast.UnaryOp, operand: Any) -> Any:
        if isinstance(node.op, ast.Not):
            return vocabulary.lookup("Not")(operand)
        if isinstance(node.op, ast.USub):
            return vocabulary.negate(operand)
        return vocabulary.lookup("bitwise_not")(operand)

    def binary(self, node: ast.BinOp, a: Any, b: Any) -> Any:
        fold = _INTEGERS.get(type(node.op))
        if fold is not None and ops.as_int(a) is not None and ops.as_int(b) is not None:
            return fold(a, b)
        return _BINARY[type(node.op)](a, b)

    def compare(self, node: ast.Compare, op: ast.cmpop, a: Any, b: Any) -> Any:
        return vocabulary.binary(_COMPARE[type(op)], a, b)

    def both(self, node: ast.AST, op: ast.boolop, parts: list[Any]) -> Any:
        return vocabulary.lookup("And" if isinstance(op, ast.And) else "Or")(*parts)

    def choose(self, node: ast.IfExp, test: Any) -> Any:
        return vocabulary.lookup("if_then_else")(test, self.value(node.body), self.value(node.orelse))

    def special_call(self, node: ast.Call) -> tuple[Any] | None:
        name = self.call(node, "tir")
        if name == "Let":
            return (self._let(node),)
        if name == "meta_var" and len(node.args) == 1:
            return (self.value(node.args[0]),)
        return None

    def attribute(self, node: ast.Attribute, owner: Any) -> Any:
        if isinstance(owner, n.Buffer) and node.attr in _BUFFER_METHODS:
            return partial(_BUFFER_METHODS[node.attr], owner)
        return super().attribute(node, owner)

    def may_call(self, node: ast.Attribute, callee: Any) -> bool:
        if isinstance(callee, partial):
            return callee.func in _BUFFER_METHODS.values()
        if isinstance(callee, StorageScope):
            return True
        return node.attr == "astype" and isinstance(self.value(node.value), PrimExpr)

    def function_of_module(self, node: ast.Attribute, module: ModuleName) -> Any:
        dtype = module.signatures[node.attr]
        if not isinstance(dtype, str):
            self.fail(node, f"{node.attr} is no TensorIR function: it cannot be called here")
        return lambda *args: n.Call(dtype, GlobalVar(node.attr), tuple(map(ops.as_expr, args)))

    def size(self, node: ast.AST, name: str) -> PrimExpr:
        return n.Var(name, "int64", self.span(node))

    def named_size(self, name: str) -> PrimExpr:
        """The size that a string names."""
        found = self.scope.find(name, None)
        if isinstance(found, n.Var):
            return found
        self.sizes[name] = var = n.Var(name, self.size_types.get(name, "int32"))
        self.scope.define_outermost(name, var)
        return var

    def element(self, node: ast.Subscript, owner: Any) -> Any:
        if isinstance(owner, n.Buffer):
            return n.BufferLoad(owner, self.point(owner, node), None, self.span(node))
        if isinstance(owner, vocabulary.TypeName):
            self.fail(node, f"T.{owner.dtype} has no elements")
        raise self.source.error(node.value, f"{ast.unparse(node.value)} is no buffer", "only buffers have elements")

    def _let(self, node: ast.Call) -> PrimExpr:
        """T.Let(body, where={v: value})."""
        where = next((k.value for k in node.keywords if k.arg == "where"), None)
        if len(node.args) != 1 or not isinstance(where, ast.Dict):
            self.fail(node, "T.Let takes a body and where={name: value}")
        bound: list[tuple[n.Var, PrimExpr]] = []
        with self.scope.block():
            for key, item in zip(where.keys, where.values):
                if not isinstance(key, ast.Name):
                    self.fail(key or where, "a name is bound by T.Let")
                given = self.expr(item)
                var = n.Var(key.id, given.dtype, self.span(key))
                self.scope.define(key.id, var)
                bound.append((var, given))
            body = self.expr(node.args[0])
        for var, given in reversed(bound):
            body = n.Let(var, given, body)
        return body


def _vload(buffer: n.Buffer, indices: Any, dtype: str | None = None, predicate: Any = None) -> PrimExpr:
    if dtype is not None:
        return buffer.vload(indices, dtype, None if predicate is None else ops.as_expr(predicate))
    items = indices if isinstance(indices, tuple | list) else (indices,)
    return n.BufferLoad(buffer, tuple(map(ops.as_expr, items)), None if predicate is None else ops.as_expr(predicate))


def _view(buffer: n.Buffer, *shape: Any) -> n.Buffer:
    """View the memory of `buffer` in another shape, one size of which may be -1, or in another dtype."""
    if buffer.strides:
        raise IRError(f"view: buffer {buffer.name!r} has strides", hint="declare it: T.Buffer(shape, data=, strides=)")
    dtype, offset, sizes = buffer.dtype, buffer.elem_offset, list(shape)
    if len(sizes) == 1 and isinstance(sizes[0], str):
        old, new = parse_dtype(dtype).bits, parse_dtype(sizes[0]).bits
        dtype = sizes[0]
        last = buffer.shape[-1]
        sizes = [*buffer.shape[:-1], ops.mul(last, old // new) if new < old else ops.floordiv(last, new // old)]
        if offset is not None:
            offset = ops.mul(offset, old // new) if new < old else ops.floordiv(offset, new // old)
    elif -1 in map(ops.as_int, sizes):
        known = [size for size in sizes if ops.as_int(size) != -1]
        rest = ops.floordiv(_product(buffer.shape), _product(known))
        sizes = [rest if ops.as_int(size) == -1 else size for size in sizes]
    if len(shape) != 1 or not isinstance(shape[0], str):
        total, whole = ops.as_int(_product(sizes)), ops.as_int(_product(buffer.shape))
        if None not in (total, whole) and total != whole:
            raise IRError(f"view: buffer {buffer.name!r} has {whole} elements, the view {total}")
    return n.Buffer(
        buffer.name, buffer.data, tuple(map(ops.as_expr, sizes)), dtype, (), offset, buffer.scope, buffer.data_alignment
    )


def _product(sizes: Sequence[Any]) -> PrimExpr:
    total = ops.const(1)
    for size in sizes:
        total = hooks.arithmetic().simplify(ops.mul(total, ops.as_expr(size)))
    return total


_BUFFER_METHODS: dict[str, Callable[..., Any]] = {
    "vload": _vload,
    "access_ptr": n.Buffer.access_ptr,
    "offset_of": n.Buffer.offset_of,
    "view": _view,
}


def extent(low: PrimExpr, high: PrimExpr) -> PrimExpr:
    """Return high - low; x if `high` is written as low + x."""
    if isinstance(low, n.IntImm):
        if isinstance(high, n.IntImm):
            return ops.const(high.value - low.value, high.dtype)
        if low.value == 0:
            return high
    if isinstance(high, n.Add) and structural_equal(high.a, low):
        return high.b
    return hooks.arithmetic().simplify(ops.sub(high, low))
