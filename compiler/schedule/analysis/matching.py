"""Whether a piece of a function computes what a description says, and where its buffers start.

Both are reduced to loops and stores. Blocks dissolve, and their variables become the bound values. Then loops must
agree one by one, and each buffer of the description must lie in one of the function's, at the same start in every
access.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from compiler.arith.analyzer import Analyzer
from compiler.ir.base import Node
from compiler.ir.visit import children
from compiler.schedule.analysis.expr import subst, subst_tree, variables
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import ForKind, PrimExpr, Stmt
from compiler.tir.visit import seq

Starts = dict[n.Buffer, tuple[PrimExpr, ...]]
Buffers = dict[n.Buffer, n.Buffer]


class Mismatch(Exception):
    """A difference; the message names it."""


def match_body(analyzer: Analyzer, desc: Stmt, body: Stmt) -> tuple[Starts, Buffers]:
    """Where each buffer of `desc` starts in `body`, and in which buffer. Raises Mismatch."""
    matcher = _Matcher(analyzer)
    matcher.stmt(plain(desc, "the description"), plain(body, "the block"))
    return matcher.starts, matcher.buffers


def plain(stmt: Stmt, whose: str) -> Stmt:
    """`stmt` without blocks and without loops of one iteration.
    Raises Mismatch for what a tile may not have."""
    match stmt:
        case n.BlockRealize():
            block = stmt.block
            if not ops.is_const(stmt.predicate, 1):
                raise Mismatch(f"block {block.name_hint!r} in {whose} runs only where {stmt.predicate!r}")
            if block.init is not None:
                raise Mismatch(f"block {block.name_hint!r} in {whose} has an init; it must be the update alone")
            if block.alloc_buffers or block.match_buffers:
                raise Mismatch(f"block {block.name_hint!r} in {whose} has buffers of its own")
            values = {iv.var: v for iv, v in zip(block.iter_vars, stmt.iter_values)}
            return plain(subst_tree(block.body, values), whose)
        case n.For() if ops.is_const(stmt.extent, 1):
            return plain(subst_tree(stmt.body, {stmt.loop_var: stmt.min}), whose)
        case n.For():
            body = plain(stmt.body, whose)
            return n.For(stmt.loop_var, stmt.min, stmt.extent, stmt.kind, body, stmt.thread_binding, stmt.annotations)
        case n.SeqStmt():
            return seq(*(plain(s, whose) for s in stmt.seq))
    return stmt


@dataclass(slots=True)
class _Matcher:
    analyzer: Analyzer
    starts: Starts = field(default_factory=dict)
    buffers: Buffers = field(default_factory=dict)
    loops: dict[n.Var, PrimExpr] = field(default_factory=dict)

    def stmt(self, want: Stmt, have: Stmt) -> None:
        match want, have:
            case n.For(), n.For():
                self._loop(want, have)
            case n.SeqStmt(), n.SeqStmt() if len(want.seq) == len(have.seq):
                for a, b in zip(want.seq, have.seq):
                    self.stmt(a, b)
            case n.BufferStore(), n.BufferStore():
                self._access(want, have)
                self.expr(want.value, have.value)
            case n.Evaluate(), n.Evaluate():
                self.expr(want.value, have.value)
            case n.IfThenElse(), n.IfThenElse() if (want.else_case is None) == (have.else_case is None):
                self.expr(want.condition, have.condition)
                self.stmt(want.then_case, have.then_case)
                if want.else_case is not None and have.else_case is not None:
                    self.stmt(want.else_case, have.else_case)
            case _:
                raise Mismatch(f"{_kind(have)} stands where it has {_kind(want)}")

    def _loop(self, want: n.For, have: n.For) -> None:
        if have.kind is not ForKind.SERIAL:
            raise Mismatch(f"loop {have.loop_var.name!r} is {have.kind.value}")
        a, b = ops.as_int(want.extent), ops.as_int(have.extent)
        if a is None or a != b or not ops.is_const(want.min, 0) or not ops.is_const(have.min, 0):
            raise Mismatch(
                f"loop {have.loop_var.name!r} runs {have.extent!r} times, loop {want.loop_var.name!r} of the "
                f"description {want.extent!r} times"
            )
        self.loops[want.loop_var] = have.loop_var
        self.analyzer.bind(have.loop_var, n.Range(have.min, have.extent))
        self.stmt(want.body, have.body)

    def expr(self, want: PrimExpr, have: PrimExpr) -> None:
        """Both compute the same."""
        if type(want) is not type(have) or want.dtype != have.dtype:
            raise Mismatch(f"it computes {have!r} ({have.dtype}), the description {want!r} ({want.dtype})")
        match want, have:
            case n.BufferLoad(), n.BufferLoad():
                self._access(want, have)
                return
            case n.Var(), n.Var():
                same = self.loops.get(want) is have
            case ((n.IntImm() | n.FloatImm() | n.StringImm()), (n.IntImm() | n.FloatImm() | n.StringImm())):
                same = want.value == have.value
            case n.Call(), n.Call():
                same = want.op is have.op and len(want.args) == len(have.args)
            case _:
                same = True
        if not same:
            raise Mismatch(f"it has {have!r} where the description has {want!r}")
        for a, b in zip(_parts(want), _parts(have)):
            self.expr(a, b)

    def _access(self, want: n.BufferLoad | n.BufferStore, have: n.BufferLoad | n.BufferStore) -> None:
        known = self.buffers.setdefault(want.buffer, have.buffer)
        if known is not have.buffer:
            raise Mismatch(f"{want.buffer.name!r} of the description is both {known.name!r} and {have.buffer.name!r}")
        if want.buffer.dtype != have.buffer.dtype:
            raise Mismatch(f"buffer {have.buffer.name!r} is {have.buffer.dtype}, {want.buffer.name!r} of the "
                           f"description {want.buffer.dtype}")  # fmt: skip
        if want.buffer.scope != have.buffer.scope and want.buffer.scope != "global":
            raise Mismatch(f"buffer {have.buffer.name!r} lives in {have.buffer.scope!r}, {want.buffer.name!r} of the "
                           f"description in {want.buffer.scope!r}")  # fmt: skip
        skipped = len(have.indices) - len(want.indices)
        if skipped < 0:
            raise Mismatch(f"buffer {have.buffer.name!r} has fewer dimensions than {want.buffer.name!r}")
        inside = {v for v in self.loops.values() if isinstance(v, n.Var)}
        start: list[PrimExpr] = []
        for dim, index in enumerate(have.indices):
            own = subst(want.indices[dim - skipped], self.loops) if dim >= skipped else ops.const(0, index.dtype)
            distance = self.analyzer.simplify(ops.sub(index, own))
            if variables(distance) & inside:
                raise Mismatch(f"dimension {dim} of {have.buffer.name!r} is indexed by {index!r}, not by {own!r} from "
                               "a fixed start")  # fmt: skip
            start.append(distance)
        before = self.starts.setdefault(want.buffer, tuple(start))
        for dim, (a, b) in enumerate(zip(before, start)):
            if not self.analyzer.can_prove_equal(a, b):
                name = have.buffer.name
                raise Mismatch(f"dimension {dim} of {name!r} starts at {a!r} in one place, at {b!r} in another")


def _parts(expr: PrimExpr) -> list[PrimExpr]:
    return [child for child in children(expr) if isinstance(child, PrimExpr)]


def _kind(node: Node) -> str:
    names = {n.For: "a loop", n.SeqStmt: "a sequence of statements", n.BufferStore: "a store", n.IfThenElse: "an if"}
    return names.get(type(node), f"a {type(node).__name__}")
