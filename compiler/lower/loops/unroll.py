"""Which loops are unrolled: those asked for, those under an auto-unroll pragma, and register tiles.

The loop is only marked; code generation writes its body once for each value of the variable. A nest of more than
`MOST_OPERATIONS` operations on registers keeps its outer loops, because more unrolling gains nothing and costs compile
time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from compiler.dtype import parse_dtype
from compiler.ir.base import Node
from compiler.ir.transform.config import register_option
from compiler.ir.visit import map_children, replace, walk
from compiler.suggest import closest
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import ForKind, PrimExpr, Stmt
from compiler.tir.transform import tir_pass
from compiler.tir.verify import LoweringStage
from compiler.tir.visit import free_vars, walk_stmts

MOST_OPERATIONS = 1024
REGISTER_TILE_OPERATIONS = 128  # a loop over a local array is unrolled up to this size, to become registers
AUTO_STEP = "pragma_auto_unroll_max_step"
EXPLICIT = "pragma_unroll_explicit"
UNROLL = "pragma_unroll"


@dataclass(frozen=True, slots=True)
class UnrollConfig:
    """The limits up to which loops are unrolled by default.
    They are `auto_max_step` statements, or `auto_max_extent` iterations."""

    auto_max_step: int = 0
    auto_max_extent: int = 0


def _read_config(value: Any) -> UnrollConfig:
    if isinstance(value, UnrollConfig):
        return value
    if not isinstance(value, Mapping):
        raise ValueError("use a dict")
    fields = ("auto_max_extent", "auto_max_step")
    for name, number in value.items():
        if name not in fields:
            raise ValueError(f"no field {name!r}; {closest(name, fields)}")
        if isinstance(number, bool) or not isinstance(number, int) or number < 0:
            raise ValueError(f"{name} is a non-negative integer")
    return UnrollConfig(**value)


NO_MORE = UnrollConfig()
UNROLL_LOOP = register_option(
    "tir.UnrollLoop",
    "a dict",
    'unroll innermost loops that become at most `{"auto_max_step": 16}` statements, '
    'or that have at most `{"auto_max_extent": 16}` steps',
    _read_config,
    NO_MORE,
)


@tir_pass("UnrollLoop", gives=LoweringStage.LOWERED, options={"config": UNROLL_LOOP.value})
def unroll(func: n.PrimFunc, vector_bits: int = 256, *, config: UnrollConfig = NO_MORE) -> n.PrimFunc:
    """Mark loops to unroll: pragmas, register tiles, and what the option `tir.UnrollLoop` says.

    Drops the pragmas that asked for it. `config` says which are unrolled where no pragma says anything.
    """
    body, _ = _Unroller(vector_bits, config.auto_max_extent).visit(func.body, config.auto_max_step)
    return func.with_body(body)


@dataclass(frozen=True, slots=True)
class _Size:
    """The size of a part: statements, and the operations on vector registers that they take."""

    statements: int = 0
    operations: int = 0

    def __add__(self, other: _Size) -> _Size:
        return _Size(self.statements + other.statements, self.operations + other.operations)

    def __mul__(self, count: int) -> _Size:
        return _Size(self.statements * count, self.operations * count)


_ONE = _Size(1, 1)


class _Unroller:
    """Rewrites bottom-up, measuring what each part becomes."""

    def __init__(self, vector_bits: int, max_extent: int) -> None:
        self._vector_bits = vector_bits
        self._max_extent = max_extent
        self._local: set[n.Var] = set()

    def visit(self, stmt: Stmt, step: int) -> tuple[Stmt, _Size]:
        """`stmt` with loops marked, and its size. `step`: the auto-unroll limit in statements."""
        match stmt:
            case n.AttrStmt() if stmt.attr_key in (AUTO_STEP, EXPLICIT):
                limit = ops.as_int(stmt.value)
                known = limit is not None and stmt.attr_key == AUTO_STEP
                return self.visit(stmt.body, limit if known and limit is not None else step)
            case n.For():
                return self._loop(stmt, step)
            case n.Allocate():
                if stmt.scope == "local":
                    self._local.add(stmt.buffer_var)
                body, size = self.visit(stmt.body, step)
                return (stmt if body is stmt.body else replace(stmt, body=body)), size
            case n.BufferStore():
                value = parse_dtype(stmt.value.dtype)
                return stmt, _Size(1, max(1, value.bits * value.lanes // self._vector_bits))
            case n.SeqStmt() | n.IfThenElse() | n.LetStmt() | n.AttrStmt() | n.AssertStmt() | n.While():
                return self._children(stmt, step)
        return stmt, _ONE

    def _children(self, stmt: Stmt, step: int) -> tuple[Stmt, _Size]:
        total = _Size()

        def go(node: Node) -> Node:
            nonlocal total
            if not isinstance(node, Stmt):
                return node
            new, size = self.visit(node, step)
            total = total + size
            return new

        return map_children(stmt, go), total if total.statements else _ONE

    def _loop(self, loop: n.For, step: int) -> tuple[Stmt, _Size]:
        limit = _number(loop.annotations.get(AUTO_STEP))
        step = step if limit is None else limit
        body, size = self.visit(loop.body, step)
        annotations = {k: v for k, v in loop.annotations.items() if k not in (AUTO_STEP, EXPLICIT, UNROLL)}
        kind = loop.kind
        extent = ops.as_int(loop.extent)
        if extent is None or kind not in (ForKind.SERIAL, ForKind.UNROLLED):
            kind = ForKind.SERIAL if kind is ForKind.UNROLLED else kind
        else:
            total = size * extent
            asked = kind is ForKind.UNROLLED or UNROLL in loop.annotations
            if not asked:
                small = total.statements <= step or extent <= self._max_extent
                automatic = small and not _has_loops(body)
                asked = automatic or (total.operations <= REGISTER_TILE_OPERATIONS and self._indexes_tile(loop))
            kind = ForKind.UNROLLED if asked and total.operations <= MOST_OPERATIONS else ForKind.SERIAL
            if kind is ForKind.UNROLLED:
                size = total
        if kind is loop.kind and body is loop.body and len(annotations) == len(loop.annotations):
            return loop, size
        return replace(loop, kind=kind, body=body, annotations=annotations), size

    def _indexes_tile(self, loop: n.For) -> bool:
        """Whether the loop's variable says which element of a local array is meant."""
        return any(
            loop.loop_var in free_vars(index)
            for node in walk(loop.body)
            if isinstance(node, n.BufferStore | n.BufferLoad) and node.buffer.data in self._local
            for index in node.indices
        )


def _has_loops(body: Stmt) -> bool:
    return any(isinstance(node, n.For) and node.kind is not ForKind.UNROLLED for node in walk_stmts(body))


def _number(value: object) -> int | None:
    if isinstance(value, PrimExpr):
        return ops.as_int(value)
    return value if isinstance(value, int) else None
