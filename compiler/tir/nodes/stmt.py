"""Statements.

Constructors convert numbers to expressions, lists to tuples, and names to loop kinds. Anything else is refused with
an IRError.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import is_not
from typing import Any

from compiler.dtype import parse_dtype
from compiler.errors import IRError
from compiler.ir.base import Node, Span, Symbol
from compiler.ir.visit import Fn
from compiler.tir.nodes.axis import ForKind, IntImm, IterVar, Var
from compiler.tir.nodes.base import PrimExpr, Stmt, set_fields
from compiler.tir.nodes.buffer import Buffer, BufferRegion, BufferStore, MatchBufferRegion
from compiler.tir.nodes.convert import number_as, to_exprs, to_tuples
from compiler.tir.nodes.expr import NE

# The numbers and names that loop kinds go by.
_KINDS: dict[Any, ForKind] = {
    **{kind: kind for kind in ForKind},
    **{kind.value: kind for kind in ForKind},
    **dict(enumerate(ForKind)),
    "unrolled": ForKind.UNROLLED,
}


def _check_body(node: Stmt, *fields: str) -> None:
    for name in fields:
        given = getattr(node, name)
        if not isinstance(given, Stmt):
            hint = "wrap an expression in tir.Evaluate" if isinstance(given, PrimExpr) else None
            raise IRError(f"{name} of {type(node).__name__} must be a statement, got {type(given).__name__}", hint=hint)


def _check_condition(node: Stmt, condition: PrimExpr) -> None:
    if condition.dtype != "bool":
        raise IRError(f"the condition of {type(node).__name__} is {condition.dtype}, not bool", hint="compare: x != 0")


def as_condition(expr: PrimExpr) -> PrimExpr:
    """`expr`, or of an integer whether it is not 0."""
    if not parse_dtype(expr.dtype).is_int or expr.dtype == "bool":
        return expr
    return IntImm("bool", int(expr.value != 0)) if isinstance(expr, IntImm) else NE(expr, IntImm(expr.dtype, 0))


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else tuple(value) if isinstance(value, Sequence) else (value,)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class For(Stmt):
    """for loop_var in [min, min + extent). Every For of a function has a `loop_var` of its own."""

    CHILDREN = ("min", "extent", "body")
    DEFINES = ("loop_var", "thread_binding.var")

    loop_var: Var
    min: PrimExpr
    extent: PrimExpr
    kind: ForKind
    body: Stmt
    thread_binding: IterVar | None = None
    annotations: Mapping[str, Any] = field(default_factory=dict)
    span: Span | None = None

    def __post_init__(self) -> None:
        if not self._is_ready():
            self._complete()

    def _is_ready(self) -> bool:
        """Whether nothing needs conversion, as in loops that the compiler itself makes.
        It is a quick test."""
        low, extent, var = self.min, self.extent, self.loop_var
        return (
            type(self.kind) is ForKind
            and isinstance(self.body, Stmt)
            and self.annotations is not None
            and isinstance(var, Var)
            and isinstance(low, PrimExpr)
            and isinstance(extent, PrimExpr)
            and var.dtype in ("int32", "int64")
            and low.dtype == var.dtype == extent.dtype
        )

    def child_list(self) -> list[Node]:
        return [self.min, self.extent, self.body]

    def map_children(self, f: Fn) -> For:
        low, extent, body = f(self.min), f(self.extent), f(self.body)
        if low is self.min and extent is self.extent and body is self.body:
            return self
        bounds: tuple[PrimExpr, PrimExpr] = (low, extent)  # type: ignore[assignment]
        rest = (self.thread_binding, self.annotations, self.span)
        return For(self.loop_var, *bounds, self.kind, body, *rest)  # type: ignore[arg-type]

    def _complete(self) -> None:
        to_exprs(self, "min", "extent")
        if self.kind not in _KINDS:
            known = ", ".join(kind.value for kind in ForKind)
            raise IRError(f"there is no loop kind {self.kind!r}", hint=f"the kinds are {known}")
        if not isinstance(self.kind, ForKind):
            set_fields(self, kind=_KINDS[self.kind])
        if self.annotations is None:
            set_fields(self, annotations={})
        _check_body(self, "body")
        name = getattr(self.loop_var, "name", self.loop_var)
        if not isinstance(self.loop_var, Var) or not parse_dtype(self.loop_var.dtype).is_int:
            raise IRError(f"the variable of a loop is an integer tir.Var, got {self.loop_var!r}")
        for field_name in ("min", "extent"):
            bound = getattr(self, field_name)
            if bound.dtype == self.loop_var.dtype:
                continue
            if not parse_dtype(bound.dtype).is_int:
                raise IRError(f"the {field_name} of loop {name!r} is {bound.dtype}, not an integer")
            set_fields(self, **{field_name: number_as(bound, self.loop_var.dtype, f"loop {name!r}")})


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class While(Stmt):
    CHILDREN = ("condition", "body")

    condition: PrimExpr
    body: Stmt
    span: Span | None = None

    def __post_init__(self) -> None:
        to_exprs(self, "condition")
        set_fields(self, condition=as_condition(self.condition))
        _check_condition(self, self.condition)
        _check_body(self, "body")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SeqStmt(Stmt):
    CHILDREN = ("seq",)

    seq: tuple[Stmt, ...]
    span: Span | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.seq, tuple):
            set_fields(self, seq=_as_tuple(self.seq))
        for stmt in self.seq:
            if not isinstance(stmt, Stmt):
                raise IRError(
                    f"SeqStmt holds statements, got {type(stmt).__name__}", hint="wrap an expression in tir.Evaluate"
                )
        if len(self.seq) < 2:
            raise IRError(f"SeqStmt holds two statements or more, got {len(self.seq)}", hint="tir.stmt_seq joins any")

    def __len__(self) -> int:
        return len(self.seq)

    def __getitem__(self, index: int) -> Stmt:
        return self.seq[index]

    def child_list(self) -> list[Node]:
        return [*self.seq]

    def map_children(self, f: Fn) -> SeqStmt:
        """Rebuild the sequence, and splice in sequences that now stand in it.
        So each function has exactly one text."""
        parts = tuple([f(stmt) for stmt in self.seq])
        if not any(map(is_not, parts, self.seq)):
            return self
        flat = tuple(part for stmt in parts for part in (stmt.seq if isinstance(stmt, SeqStmt) else (stmt,)))
        return SeqStmt(flat, self.span)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class IfThenElse(Stmt):
    CHILDREN = ("condition", "then_case", "else_case")

    condition: PrimExpr
    then_case: Stmt
    else_case: Stmt | None = None
    span: Span | None = None

    def __post_init__(self) -> None:
        to_exprs(self, "condition")
        set_fields(self, condition=as_condition(self.condition))
        _check_condition(self, self.condition)
        _check_body(self, "then_case", *(() if self.else_case is None else ("else_case",)))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LetStmt(Stmt):
    CHILDREN = ("value", "body")
    DEFINES = ("var",)

    var: Var
    value: PrimExpr
    body: Stmt
    span: Span | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.value, PrimExpr):
            set_fields(self, value=number_as(self.value, self.var.dtype, f"the value of {self.var.name!r}"))
        if self.value.dtype != self.var.dtype:
            raise IRError(f"LetStmt: {self.var.name!r} is {self.var.dtype}, its value {self.value.dtype}")
        _check_body(self, "body")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AttrStmt(Stmt):
    """`body` annotated with attr_key = value about `node`."""

    CHILDREN = ("value", "body")

    node: Any
    attr_key: str
    value: PrimExpr
    body: Stmt
    span: Span | None = None

    def definitions(self) -> Iterator[Symbol]:
        """The variable of a thread, where this launches threads."""
        if isinstance(self.node, IterVar) and self.attr_key == "thread_extent":
            yield self.node.var

    def __post_init__(self) -> None:
        to_exprs(self, "value")
        _check_body(self, "body")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AssertStmt(Stmt):
    CHILDREN = ("condition", "message", "body")

    condition: PrimExpr
    message: PrimExpr
    body: Stmt
    span: Span | None = None

    def __post_init__(self) -> None:
        to_exprs(self, "condition", "message")
        _check_condition(self, self.condition)
        _check_body(self, "body")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Evaluate(Stmt):
    """An expression run for its effect."""

    CHILDREN = ("value",)

    value: PrimExpr
    span: Span | None = None

    def __post_init__(self) -> None:
        to_exprs(self, "value")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Allocate(Stmt):
    """Storage behind `buffer_var` that lives while `body` runs. `scope` as in `Buffer`."""

    CHILDREN = ("extents", "condition", "body")
    DEFINES = ("buffer_var",)

    buffer_var: Var
    dtype: str
    extents: tuple[PrimExpr, ...]
    condition: PrimExpr
    body: Stmt
    scope: str = "global"
    annotations: Mapping[str, Any] = field(default_factory=dict)
    span: Span | None = None

    def __post_init__(self) -> None:
        parse_dtype(self.dtype)
        to_tuples(self, "extents")
        to_exprs(self, "condition")
        for extent in self.extents:
            if not parse_dtype(extent.dtype).is_int:
                raise IRError(f"Allocate: an extent of {self.buffer_var.name!r} is {extent.dtype}, not an integer")
        _check_condition(self, self.condition)
        _check_body(self, "body")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DeclBuffer(Stmt):
    """`buffer`, a view of memory that its data variable already has, declared for `body`."""

    CHILDREN = ("body",)
    DEFINES = ("buffer",)

    buffer: Buffer
    body: Stmt
    span: Span | None = None

    def __post_init__(self) -> None:
        _check_body(self, "body")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Block(Stmt):
    """A computation isolated by its own iteration variables; the unit of scheduling.

    `iter_vars` are data-parallel (DATA_PAR) or reduced (COMM_REDUCE), and their domains start at 0. `init` runs
    where every reduced iteration is at its start. `name_hint` is unique in a function. The outermost block, "root",
    has no iteration variables and allocates the intermediate buffers.
    """

    CHILDREN = ("iter_vars", "reads", "writes", "match_buffers", "init", "body")
    DEFINES = ("iter_vars.var", "alloc_buffers", "match_buffers.buffer")

    iter_vars: tuple[IterVar, ...]
    reads: tuple[BufferRegion, ...]
    writes: tuple[BufferRegion, ...]
    name_hint: str
    body: Stmt
    init: Stmt | None = None
    alloc_buffers: tuple[Buffer, ...] = ()
    match_buffers: tuple[MatchBufferRegion, ...] = ()
    annotations: Mapping[str, Any] = field(default_factory=dict)
    span: Span | None = None

    def __post_init__(self) -> None:
        for name in ("iter_vars", "reads", "writes", "alloc_buffers", "match_buffers"):
            if not isinstance(getattr(self, name), tuple):
                set_fields(self, **{name: _as_tuple(getattr(self, name) or ())})
        _check_body(self, "body", *(() if self.init is None else ("init",)))
        for iter_var in self.iter_vars:
            if not isinstance(iter_var, IterVar):
                raise IRError(f"block {self.name_hint!r}: iter_vars are tir.IterVar, got {type(iter_var).__name__}")
        for region in (*self.reads, *self.writes):
            if not isinstance(region, BufferRegion):
                raise IRError(f"block {self.name_hint!r}: reads and writes are regions, got {type(region).__name__}")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BlockRealize(Stmt):
    """`block` run with its iteration variables bound to `iter_values`, where `predicate` holds."""

    CHILDREN = ("iter_values", "predicate", "block")

    iter_values: tuple[PrimExpr, ...]
    predicate: PrimExpr
    block: Block
    span: Span | None = None

    def __post_init__(self) -> None:
        to_tuples(self, "iter_values")
        to_exprs(self, "predicate")
        if not isinstance(self.block, Block):
            raise IRError(f"BlockRealize needs a tir.Block, got {type(self.block).__name__}")
        if len(self.iter_values) != len(self.block.iter_vars):
            raise IRError(
                f"block {self.block.name_hint!r} has {len(self.block.iter_vars)} iteration variables, "
                f"given {len(self.iter_values)} values"
            )


AnyStmt = (
    BufferStore
    | For
    | While
    | SeqStmt
    | IfThenElse
    | LetStmt
    | AttrStmt
    | AssertStmt
    | Evaluate
    | Allocate
    | DeclBuffer
    | Block
    | BlockRealize
)
