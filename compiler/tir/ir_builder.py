"""Write a statement by hand, line by line, for `te.extern` and tensor intrinsics.

ib = create()
a, b = ib.buffer_ptr(A), ib.buffer_ptr(B)
with ib.for_range(0, n, "i") as i:
    with ib.if_scope(a[i] > 0):
        b[i] = a[i]
    with ib.else_scope():
        b[i] = 0.0
statement = ib.get()
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from compiler.dtype import lanes_of
from compiler.errors import IRError
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.nodes import PrimExpr, Stmt
from compiler.tir.nodes.stmt import as_condition
from compiler.tir.visit import seq

_KINDS = {kind.value: kind for kind in n.ForKind} | {"unrolled": n.ForKind.UNROLLED}


def create() -> IRBuilder:
    """A builder without any statement yet."""
    return IRBuilder()


@dataclass(frozen=True, slots=True, eq=False)
class BufferVar:
    """A buffer whose elements can be read and written: `x[i, j]`, `x[i, j] = value`.

    The last index may be a `tir.Ramp`, for a vector. One index into a buffer of several dimensions counts elements
    in memory order.
    """

    builder: IRBuilder
    buffer: n.Buffer

    @property
    def dtype(self) -> str:
        return self.buffer.dtype

    def asobject(self) -> n.Var:
        """The address of its memory."""
        return self.buffer.data

    def __getitem__(self, index: Any) -> n.BufferLoad:
        return n.BufferLoad(self.buffer, self._point(index))

    def __setitem__(self, index: Any, value: Any) -> None:
        given, point = ops.as_expr(value), self._point(index)
        place = n.BufferLoad(self.buffer, point)
        if given.dtype != place.dtype:
            if not isinstance(given, n.IntImm | n.FloatImm) or lanes_of(place.dtype) > 1:
                raise IRError(
                    f"a value of dtype {given.dtype} is stored to buffer {self.buffer.name!r} of {self.dtype}"
                    + (f" at {place.dtype}" if place.dtype != self.dtype else ""),
                    hint=f"convert it: value.astype({place.dtype!r})",
                )
            given = ops.cast(place.dtype, given)
        self.builder.emit(n.BufferStore(self.buffer, given, point))

    def _point(self, index: Any) -> tuple[PrimExpr, ...]:
        items = tuple(index) if isinstance(index, tuple | list) else (index,)
        shape = self.buffer.shape
        point = tuple(ops.as_expr(item) for item in items)
        if len(point) == 1 and len(shape) > 1:
            return _unflattened(point[0], shape)
        if len(point) != max(len(shape), 1):
            raise IRError(f"buffer {self.buffer.name!r} has {len(shape)} dimensions, indexed with {len(point)}")
        return point if shape else ()


def _unflattened(index: PrimExpr, shape: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
    point: list[PrimExpr] = []
    for size in reversed(shape[1:]):
        point.append(ops.floormod(index, size))
        index = ops.floordiv(index, size)
    return (index, *reversed(point))


class IRBuilder:
    """Collects statements in the order of the calls; a `with` block holds those of a loop or a branch."""

    def __init__(self) -> None:
        self._open: list[list[Stmt | Callable[[Stmt], Stmt]]] = [[]]

    def emit(self, stmt: Stmt | PrimExpr) -> None:
        """Add a statement, or an expression for its effect."""
        self._open[-1].append(n.Evaluate(stmt) if isinstance(stmt, PrimExpr) else stmt)

    def get(self) -> Stmt:
        """The statement made. Raises IRError inside a `with` block."""
        if len(self._open) != 1:
            raise IRError("IRBuilder.get is called inside a loop or a branch that is not finished")
        return closed(self._open[0])

    @contextmanager
    def _scope(self, wrap: Callable[[Stmt], Stmt]) -> Iterator[None]:
        self._open.append([])
        try:
            yield
        except BaseException:
            self._open.pop()
            raise
        self.emit(wrap(closed(self._open.pop())))

    # ------------------------------------------------------------------------------- control

    @contextmanager
    def for_range(
        self, begin: Any, end: Any, name: str = "i", dtype: str | None = None, kind: str = "serial"
    ) -> Iterator[n.Var]:
        """A loop over [begin, end). `kind`: "serial", "parallel", "vectorized" or "unroll"."""
        if kind not in _KINDS or _KINDS[kind] is n.ForKind.THREAD_BINDING:
            raise IRError(f"there is no loop kind {kind!r}", hint='use "serial", "parallel", "vectorized" or "unroll"')
        low, high = ops.match_types(begin, end)
        chosen = dtype if dtype is not None else low.dtype
        low, high = ops.cast(chosen, low), ops.cast(chosen, high)
        var = n.Var(name, chosen)
        with self._scope(lambda body: n.For(var, low, ops.sub(high, low), _KINDS[kind], body)):
            yield var

    @contextmanager
    def while_loop(self, condition: Any) -> Iterator[None]:
        """Repeat while `condition` holds."""
        test = _condition(condition, "while_loop")
        with self._scope(lambda body: n.While(test, body)):
            yield

    @contextmanager
    def if_scope(self, condition: Any) -> Iterator[None]:
        """Where `condition` holds."""
        test = _condition(condition, "if_scope")
        with self._scope(lambda body: n.IfThenElse(test, body)):
            yield

    @contextmanager
    def else_scope(self) -> Iterator[None]:
        """Where the condition of the `if_scope` right before did not hold."""
        here = self._open[-1]
        branch = here[-1] if here else None
        if not isinstance(branch, n.IfThenElse) or branch.else_case is not None:
            raise IRError("else_scope must come right after an if_scope")
        here.pop()
        with self._scope(lambda body: n.IfThenElse(branch.condition, branch.then_case, body)):
            yield

    def let(self, name: str, value: Any) -> n.Var:
        """A variable with the value `value` for the rest of the block."""
        expr = ops.as_expr(value)
        var = n.Var(name, expr.dtype)
        self._open[-1].append(lambda body: n.LetStmt(var, expr, body))
        return var

    def scope_attr(self, node: Any, attr_key: str, value: Any) -> None:
        """Annotate the rest of the block with attr_key = value about `node`."""
        expr = ops.as_expr(value)
        self._open[-1].append(lambda body: n.AttrStmt(node, attr_key, expr, body))

    def likely(self, condition: Any) -> PrimExpr:
        """A hint that `condition` is nearly always true."""
        return intrin.likely(condition)

    # ------------------------------------------------------------------------------- buffers

    def buffer_ptr(self, buf: n.Buffer) -> BufferVar:
        """`buf`, to read and write."""
        return BufferVar(self, buf)

    def pointer(self, content_type: str, name: str = "ptr", scope: str = "") -> BufferVar:
        """Memory at an address, of one dimension and unknown length.
        Its variable, `.asobject()`, is for the caller to make a parameter or to bind."""
        size = n.SizeVar(f"{name}_size")
        return BufferVar(self, n.decl_buffer((size,), content_type, name, scope=scope))

    def allocate(self, dtype: str, shape: Any, name: str = "buf", scope: str = "global") -> BufferVar:
        """Memory for the rest of the block."""
        buffer = n.decl_buffer(shape, dtype, name, scope=scope or "global")
        true = ops.const(True)
        self._open[-1].append(lambda body: n.Allocate(buffer.data, dtype, buffer.shape, true, body, buffer.scope))
        return BufferVar(self, buffer)


def _condition(value: Any, what: str) -> PrimExpr:
    test = as_condition(ops.as_expr(value))
    if test.dtype != "bool":
        raise IRError(f"{what} needs a condition, got {test.dtype}")
    return test


def closed(items: list[Stmt | Callable[[Stmt], Stmt]]) -> Stmt:
    """Return the statements one after another.
    A function in the list is called with all statements behind it, as its body."""
    rest: list[Stmt] = []
    for item in reversed(items):
        rest = [item, *rest] if isinstance(item, Stmt) else [item(seq(*rest))]
    return seq(*rest)
