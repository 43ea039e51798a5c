"""Reading a hybrid function: Python's statements as statements of TensorIR.

The body of the function never runs. Its arguments are buffers, lists of buffers, expressions and numbers. A name that
is assigned once, before its uses, is a constant or a `let`. Any other name of a number is a buffer of one element.
Buffers are allocated around the innermost parallel or thread loop, else around all loops.
"""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from compiler.dtype import parse_dtype
from compiler.faces.hybrid.calls import CALLS, LOOPS, number
from compiler.ir.visit import walk
from compiler.script.parser import is_plain
from compiler.script.scope import Scope
from compiler.script.source import Source
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.ir_builder import closed
from compiler.tir.nodes import PrimExpr, Stmt
from compiler.tir.text.parse_expr import TirParser, extent
from compiler.tir.visit import free_vars

_TRUE = ops.const(True)
_SIDE_BY_SIDE = (n.ForKind.PARALLEL, n.ForKind.VECTORIZED, n.ForKind.THREAD_BINDING)
_DECLARED = ("output_tensor", "allocate")


@dataclass(frozen=True, slots=True)
class MutableNumber:
    """A number that changes: a buffer of one element."""

    buffer: n.Buffer


@dataclass(slots=True)
class TensorFrame:
    """Tensors allocated for each iteration of a loop, or for the whole function."""

    names: dict[str, Any]
    allocated: list[n.Buffer] = field(default_factory=list)


@dataclass(slots=True)
class Writing:
    """The statements written so far, shared by a function and those that it calls."""

    title: str
    open: list[list[Stmt | Callable[[Stmt], Stmt]]] = field(default_factory=lambda: [[]])
    frames: list[TensorFrame] = field(default_factory=lambda: [TensorFrame({})])
    taken: int = 0

    def emit(self, item: Stmt | Callable[[Stmt], Stmt]) -> None:
        self.open[-1].append(item)

    def allocate(self, shape: Sequence[PrimExpr], dtype: str, name: str, scope: str = "global") -> n.Buffer:
        buffer = n.decl_buffer(tuple(shape), dtype, name, scope=scope)
        self.frames[-1].allocated.append(buffer)
        return buffer

    @contextmanager
    def part(self) -> Iterator[list[Stmt | Callable[[Stmt], Stmt]]]:
        """Statements written inside are put into a list of their own."""
        self.open.append([])
        try:
            yield self.open[-1]
        finally:
            self.open.pop()

    def framed(self, body: Stmt, frame: TensorFrame) -> Stmt:
        """`body` in a block that holds what is allocated for it."""
        if not frame.allocated:
            return body
        own = set(frame.allocated)
        loads = [node.buffer for node in walk(body) if isinstance(node, n.BufferLoad)]
        stores = [node.buffer for node in walk(body) if isinstance(node, n.BufferStore)]
        reads, writes = (tuple(_whole(b) for b in dict.fromkeys(found) if b not in own) for found in (loads, stores))
        self.taken += 1
        name = f"{self.title}_part_{self.taken}"
        return n.BlockRealize((), _TRUE, n.Block((), reads, writes, name, body, alloc_buffers=tuple(frame.allocated)))


def _whole(buffer: n.Buffer) -> n.BufferRegion:
    return n.BufferRegion(buffer, tuple(n.Range(ops.const(0, size.dtype), size) for size in buffer.shape))


class Inlined(ABC):
    """A hybrid function that another one calls: its statements are written there."""

    @abstractmethod
    def definition(self) -> tuple[Source, ast.FunctionDef, Mapping[str, Any]]:
        """Return the text, the definition in it, and the values of the names around it."""


class Reader(TirParser):
    """Reads one hybrid function, given the values of its parameters."""

    EXPECTED = "write arithmetic, elements a[i, j] and calls of functions that give expressions"

    def __init__(
        self, source: Source, node: ast.FunctionDef, captured: Mapping[str, Any], args: Sequence[Any], writing: Writing
    ) -> None:
        super().__init__(source, Scope({**captured, **CALLS}))
        self.node = node
        self.writing = writing
        self.returned: Any = None
        self._rest: list[Sequence[ast.stmt]] = []
        names = [item.id for item in ast.walk(node) if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store)]
        self._stores = {name: names.count(name) for name in names}
        self._bind(args)

    def _bind(self, args: Sequence[Any]) -> None:
        spec = self.node.args
        if spec.vararg or spec.kwarg or spec.kwonlyargs or spec.posonlyargs or spec.defaults:
            self.fail(self.node, "a hybrid function has plain parameters, without defaults")
        names = [param.arg for param in spec.args]
        if len(names) != len(args):
            self.fail(self.node, f"{self.node.name} takes {len(names)} arguments ({', '.join(names)}), got {len(args)}")
        for name, value in zip(names, args):
            self.scope.define_outermost(name, value)

    def read(self) -> None:
        """Write the statements of the function; `returned` is what it returns."""
        body = self.node.body
        last = body[-1]
        self._statements(body[:-1] if isinstance(last, ast.Return) else body)
        if isinstance(last, ast.Return):
            self.returned = None if last.value is None else self.value(last.value)

    # ------------------------------------------------------------------------------- statements

    def _statements(self, body: Sequence[ast.stmt]) -> None:
        for position, node in enumerate(body):
            self._rest.append(body[position + 1 :])
            try:
                with self.source.at(node):
                    self._statement(node)
            finally:
                self._rest.pop()

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Pass() | ast.Expr(value=ast.Constant()):
                return
            case ast.Assign(targets=[target]):
                self._assign(node, target, node.value)
            case ast.AnnAssign(target=target, value=ast.expr() as given):
                self._assign(node, target, given)
            case ast.AugAssign(target=target):
                load = _as_load(target)
                value = ast.copy_location(ast.BinOp(load, node.op, node.value), node)
                self._assign(node, target, value)
            case ast.For():
                self._for(node)
            case ast.While(test=test, body=body, orelse=[]):
                condition = self._condition(test)
                self.writing.emit(n.While(condition, self._part(body)))
            case ast.If(test=test, body=body, orelse=orelse):
                self._if(test, body, orelse)
            case ast.Assert(test=test, msg=message):
                self._assert(test, message)
            case ast.Expr(value=value):
                found = self.value(value)
                if isinstance(found, PrimExpr):
                    self.writing.emit(n.Evaluate(found))
            case ast.Return():
                self.fail(node, "a hybrid function returns once, at its end")
            case ast.Break() | ast.Continue():
                self.fail(node, "a loop of a hybrid function runs to its end", "write `if`, or a `while` loop")
            case _:
                self.fail(node, f"this statement ({type(node).__name__}) has no place in a hybrid function")

    def _part(self, body: Sequence[ast.stmt]) -> Stmt:
        with self.writing.part() as items:
            self._statements(body)
        return closed(items)

    def _condition(self, node: ast.expr) -> PrimExpr:
        found = self.expr(node)
        return found if found.dtype == "bool" else ops.not_equal(found, ops.const(0, found.dtype))

    def _if(self, test: ast.expr, body: Sequence[ast.stmt], orelse: Sequence[ast.stmt]) -> None:
        known = self.value(test)
        if is_plain(known) or (isinstance(known, n.IntImm)):
            self._statements(body if (known.value if isinstance(known, n.IntImm) else known) else orelse)
            return
        condition = self._condition(test)
        self.writing.emit(n.IfThenElse(condition, self._part(body), self._part(orelse) if orelse else None))

    def _assert(self, test: ast.expr, message: ast.expr | None) -> None:
        condition = self._condition(test)
        said = ops.as_expr("assert failed" if message is None else self.constant(message, str, "a message"))
        self.writing.emit(lambda body: n.AssertStmt(condition, said, body))

    # ----------------------------------------------------------------------------------- loops

    def _for(self, node: ast.For) -> None:
        if not isinstance(node.target, ast.Name) or node.orelse:
            self.fail(node, "a loop is `for i in range(n):`, with one name and no `else`")
        call = node.iter
        name = call.func.id if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) else ""
        if not isinstance(call, ast.Call) or (name not in LOOPS and name not in ("const_range", "bind")):
            self.fail(node.iter, "a loop goes over a range", f"use {', '.join(LOOPS)}, const_range or bind")
        args, named = self.arguments(call)
        if named:
            self.fail(call, f"{name} takes its arguments by position")
        if name == "const_range":
            self._repeat(node, node.target.id, args)
        elif name == "bind":
            self._threads(node, node.target.id, args)
        else:
            self._loop(node, node.target.id, LOOPS[name], args)

    def _repeat(self, node: ast.For, name: str, args: Sequence[Any]) -> None:
        bounds = [number(arg) for arg in args]
        if not 1 <= len(bounds) <= 3 or not all(type(bound) is int for bound in bounds):
            self.fail(node.iter, "const_range takes one to three constant integers")
        for index in range(*bounds):
            with self.scope.block():
                self.scope.define(name, index)
                self.writing.emit(self._part(node.body))

    def _threads(self, node: ast.For, name: str, args: Sequence[Any]) -> None:
        if len(args) != 2 or not isinstance(args[0], str):
            self.fail(node.iter, 'bind takes a thread and a number: bind("threadIdx.x", 32)')
        size = ops.as_expr(args[1])
        axis = n.IterVar(None, n.Var(args[0], size.dtype), n.IterType.THREAD_INDEX, args[0])
        self._written(node, name, n.ForKind.THREAD_BINDING, ops.const(0, size.dtype), size, 1, axis)

    def _loop(self, node: ast.For, name: str, kind: n.ForKind, args: Sequence[Any]) -> None:
        if not 1 <= len(args) <= 3:
            self.fail(node.iter, "a range takes one to three arguments")
        step = number(args[2]) if len(args) == 3 else 1
        if type(step) is not int or step == 0:
            self.fail(node.iter, "the step of a range is a constant integer other than 0")
        low, high = ops.match_types(*(args[:2] if len(args) > 1 else (0, args[0])))
        if not parse_dtype(low.dtype).is_int:
            self.fail(node.iter, f"the bounds of a range are integers, not {low.dtype}")
        size = extent(low, high) if step > 0 else extent(high, low)
        if abs(step) != 1:
            size = ops.ceildiv(size, ops.const(abs(step), size.dtype))
        self._written(node, name, kind, low, size, step, None)

    def _written(
        self, node: ast.For, name: str, kind: n.ForKind, low: PrimExpr, size: PrimExpr, step: int,
        axis: n.IterVar | None,
    ) -> None:  # fmt: skip
        var = n.Var(name, size.dtype, self.span(node.target))
        start = low if step == 1 else ops.const(0, size.dtype)
        with self.scope.block() as names:
            self.scope.define(name, var if step == 1 else ops.add(low, ops.mul(var, ops.const(step, size.dtype))))
            if kind in _SIDE_BY_SIDE:
                self.writing.frames.append(TensorFrame(names))
            try:
                body = self._part(node.body)
            finally:
                frame = self.writing.frames.pop() if kind in _SIDE_BY_SIDE else None
        if frame is not None:
            body = self.writing.framed(body, frame)
        self.writing.emit(n.For(var, start, size, kind, body, axis, span=self.span(node)))

    # ----------------------------------------------------------------------------- assignments

    def _assign(self, node: ast.stmt, target: ast.expr, value: ast.expr) -> None:
        match target:
            case ast.Name(id=name):
                self._assign_name(node, name, self._declared(value, name))
            case ast.Subscript():
                buffer, point = self._access(target)
                if point is None:
                    self.fail(target, f"{ast.unparse(target.value)} has no elements to write")
                self.writing.emit(n.BufferStore(buffer, ops.cast(buffer.dtype, self.value(value)), point))
            case ast.Tuple(elts=elements):
                found = self.value(value)
                if not isinstance(found, tuple | list) or len(found) != len(elements):
                    self.fail(node, f"{len(elements)} names are given something else")
                for element, item in zip(elements, found):
                    if not isinstance(element, ast.Name):
                        self.fail(element, "names stand on the left of several values")
                    self._assign_name(node, element.id, item)
            case _:
                self.fail(target, "a name or an element stands on the left of `=`")

    def _declared(self, value: ast.expr, name: str) -> Any:
        """The value on the right of `name =`; memory is named after it."""
        callee = value.func.id if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) else ""
        if not isinstance(value, ast.Call) or callee not in _DECLARED:
            return self.value(value)
        args, named = self.arguments(value)
        given = dict(zip(("shape", "dtype", "scope"), args)) | named
        if "shape" not in given or not set(given) <= {"shape", "dtype", "scope"}:
            self.fail(value, f"{callee} takes a shape, a dtype and a scope")
        shape = given["shape"] if isinstance(given["shape"], tuple | list) else (given["shape"],)
        sizes = tuple(map(ops.as_expr, shape))
        if any(self._is_loop(var) for size in sizes for var in free_vars(size)):
            self.fail(value, f"the size of {name} depends on a loop", "allocate as much as the longest takes")
        return self.writing.allocate(sizes, given.get("dtype") or "float32", name, given.get("scope") or "global")

    def _is_loop(self, var: n.Var) -> bool:
        loops = (item.target for item in ast.walk(self.node) if isinstance(item, ast.For))
        return any(isinstance(target, ast.Name) and target.id == var.name for target in loops)

    def _assign_name(self, node: ast.stmt, name: str, value: Any) -> None:
        held = self.scope.find(name, None) if name in self.scope.names() else None
        if isinstance(held, MutableNumber):
            self._store(node, name, held, value)
        elif isinstance(held, n.Var | n.Buffer):
            kind = "a tensor" if isinstance(held, n.Buffer) else "a number that the function is given, or a loop's"
            self.fail(node, f"{name} is {kind}: it cannot be assigned", "use another name")
        elif not isinstance(value, bool | int | float | PrimExpr):
            self.scope.define(name, value)
        elif self._stores.get(name, 0) == 1 and isinstance(node, ast.Assign) and self._is_let(name):
            self._let_name(name, value)
        else:
            self._new_cell(node, name, value)

    def _is_let(self, name: str) -> bool:
        """Whether every use of a name comes after the current statement, in the same list of statements."""

        def uses(nodes: Sequence[ast.AST]) -> int:
            found = (item for node in nodes for item in ast.walk(node) if isinstance(item, ast.Name))
            return sum(item.id == name and isinstance(item.ctx, ast.Load) for item in found)

        last = self.node.body[-1]
        returns = [last] if isinstance(last, ast.Return) and len(self._rest) == 1 else []
        return uses([*self._rest[-1], *returns]) == uses(self.node.body)

    def _let_name(self, name: str, value: Any) -> None:
        if is_plain(value):
            self.scope.define(name, value)
            return
        var = n.Var(name, value.dtype)
        self.writing.emit(lambda body: n.LetStmt(var, value, body))
        self.scope.define(name, var)

    def _new_cell(self, node: ast.stmt, name: str, value: Any) -> None:
        given = ops.as_expr(value)
        cell = MutableNumber(self.writing.allocate((ops.const(1),), given.dtype, name, "global"))
        if len(self.writing.frames) == 1:
            self.scope.define_outermost(name, cell)
        else:
            self.writing.frames[-1].names[name] = cell
        self._store(node, name, cell, value)

    def _store(self, node: ast.stmt, name: str, cell: MutableNumber, value: Any) -> None:
        if not isinstance(value, bool | int | float | PrimExpr):
            self.fail(node, f"{name} is a number: it cannot become a {type(value).__name__}")
        given = ops.as_expr(value)
        if parse_dtype(given.dtype).is_float and not parse_dtype(cell.buffer.dtype).is_float:
            hint = f"start it with a float, or write int32(...): {name} = 0.0"
            self.fail(node, f"{name} began as {cell.buffer.dtype} and is given a {given.dtype}", hint)
        self.writing.emit(n.BufferStore(cell.buffer, ops.cast(cell.buffer.dtype, value), (ops.const(0),)))

    # ---------------------------------------------------------------------------- expressions

    def value_Name(self, node: ast.Name) -> Any:
        found = super().value_Name(node)
        return (
            n.BufferLoad(found.buffer, (ops.const(0),), None, self.span(node))
            if isinstance(found, MutableNumber)
            else found
        )

    def value_Subscript(self, node: ast.Subscript) -> Any:
        owner, point = self._access(node)
        return owner if point is None else n.BufferLoad(owner, point, None, self.span(node))

    def _access(self, node: ast.Subscript) -> tuple[Any, tuple[PrimExpr, ...] | None]:
        """A buffer and the place of an element in it; or a value and None, where it is an item of a list."""
        indices: list[ast.expr] = []
        base: ast.expr = node
        while isinstance(base, ast.Subscript):
            inner = base.slice.elts if isinstance(base.slice, ast.Tuple) else [base.slice]
            indices[:0] = inner
            base = base.value
        owner = self.value(base)
        while indices and isinstance(owner, tuple | list):
            place = number(self.value(indices[0]))
            if type(place) is not int or not -len(owner) <= place < len(owner):
                self.fail(node, f"{ast.unparse(indices[0])} is no constant index of {ast.unparse(base)}")
            owner = owner[place]
            indices.pop(0)
        if not indices:
            return owner, None
        if not isinstance(owner, n.Buffer):
            self.fail(node, f"{ast.unparse(base)} has no elements")
        if len(indices) != len(owner.shape):
            self.fail(node, f"{owner.name} has {len(owner.shape)} dimensions, indexed with {len(indices)}")
        return owner, tuple(self._index(item) for item in indices)

    def attribute(self, node: ast.Attribute, owner: Any) -> Any:
        if isinstance(owner, n.Buffer) and node.attr == "shape":
            return tuple(map(number, owner.shape))
        return super().attribute(node, owner)

    def special_call(self, node: ast.Call) -> tuple[Any] | None:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in _DECLARED:
            self.fail(node, f"{name} stands alone on the right of `name =`")
        if name in LOOPS or name in ("const_range", "bind"):
            self.fail(node, f"{name} is what a `for` goes over")
        if isinstance(node.func, ast.Name) and name not in CALLS:
            callee = self.scope.find(name, None)
            if isinstance(callee, Inlined):
                return (self._inline(node, callee),)
        return super().special_call(node)

    def _inline(self, node: ast.Call, callee: Inlined) -> Any:
        """Write the statements of another hybrid function here; return the tensors that it returns."""
        args, named = self.arguments(node)
        if named:
            self.fail(node, "a hybrid function takes its arguments by position")
        reader = Reader(*callee.definition(), args, self.writing)
        reader.read()
        return reader.returned


def _as_load(target: ast.expr) -> ast.expr:
    """The value that stands at the left of `+=`."""
    match target:
        case ast.Name(id=name):
            return ast.copy_location(ast.Name(name, ast.Load()), target)
        case ast.Subscript(value=owner, slice=index):
            return ast.copy_location(ast.Subscript(owner, index, ast.Load()), target)
    return target
