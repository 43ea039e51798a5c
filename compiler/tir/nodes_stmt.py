"""Statements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from compiler.ir.base import Span
from compiler.tir.nodes_axis import ForKind, IterVar, Var
from compiler.tir.nodes_base import PrimExpr, Stmt
from compiler.tir.nodes_buffer import Buffer, BufferRegion


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BufferStore(Stmt):
    """buffer[indices] = value. A vector store when the last index is a `Ramp`; `predicate` masks lanes."""

    buffer: Buffer
    value: PrimExpr
    indices: tuple[PrimExpr, ...]
    predicate: PrimExpr | None = None
    span: Span | None = None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class For(Stmt):
    """for loop_var in [min, min + extent). Every For of a function has a `loop_var` of its own."""

    loop_var: Var
    min: PrimExpr
    extent: PrimExpr
    kind: ForKind
    body: Stmt
    thread_binding: IterVar | None = None
    annotations: Mapping[str, Any] = field(default_factory=dict)
    span: Span | None = None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class While(Stmt):
    condition: PrimExpr
    body: Stmt
    span: Span | None = None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SeqStmt(Stmt):
    seq: tuple[Stmt, ...]
    span: Span | None = None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class IfThenElse(Stmt):
    condition: PrimExpr
    then_case: Stmt
    else_case: Stmt | None = None
    span: Span | None = None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LetStmt(Stmt):
    var: Var
    value: PrimExpr
    body: Stmt
    span: Span | None = None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AttrStmt(Stmt):
    """`body` annotated with attr_key = value about `node`."""

    node: Any
    attr_key: str
    value: PrimExpr
    body: Stmt
    span: Span | None = None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AssertStmt(Stmt):
    condition: PrimExpr
    message: PrimExpr
    body: Stmt
    span: Span | None = None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Evaluate(Stmt):
    """An expression run for its effect."""

    value: PrimExpr
    span: Span | None = None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Allocate(Stmt):
    """Storage behind `buffer_var` that lives while `body` runs. `scope` as in `Buffer`."""

    buffer_var: Var
    dtype: str
    extents: tuple[PrimExpr, ...]
    condition: PrimExpr
    body: Stmt
    scope: str = "global"
    annotations: Mapping[str, Any] = field(default_factory=dict)
    span: Span | None = None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Block(Stmt):
    """A computation isolated by its own iteration variables; the unit of scheduling.

    `iter_vars` are data-parallel (DATA_PAR) or reduced (COMM_REDUCE) and their domains start at 0.
    `init` runs where every reduced iteration is at its start. `name_hint` is unique in a function.
    The outermost block, "root", has no iteration variables and allocates the intermediate buffers.
    """

    iter_vars: tuple[IterVar, ...]
    reads: tuple[BufferRegion, ...]
    writes: tuple[BufferRegion, ...]
    name_hint: str
    body: Stmt
    init: Stmt | None = None
    alloc_buffers: tuple[Buffer, ...] = ()
    match_buffers: tuple[tuple[Buffer, BufferRegion], ...] = ()
    annotations: Mapping[str, Any] = field(default_factory=dict)
    span: Span | None = None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BlockRealize(Stmt):
    """`block` run with its iteration variables bound to `iter_values`, where `predicate` holds."""

    iter_values: tuple[PrimExpr, ...]
    predicate: PrimExpr
    block: Block
    span: Span | None = None


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
    | Block
    | BlockRealize
)
