"""Python source for statements: what the interpreter runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import compiler.interp.calls  # noqa: F401  (fills the rules of calls)
from compiler.dtype import element_of, lanes_of
from compiler.errors import LoweringError
from compiler.interp.expr import Bound, ExprWriter, ValueCode
from compiler.interp.expr_rules import bind
from compiler.interp.memory import storage
from compiler.ir.visit import replace, walk
from compiler.lower.analysis.conditions import conjuncts
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import IterType, PrimExpr, Stmt
from compiler.tir.visit import free_vars, seq


class StmtWriter(ExprWriter):
    """Writes the body of a function."""

    # CPython allows 20 nested loops in one function; deeper ones go into a function of their own.
    MAX_NEST = 16

    def __init__(self, body: Stmt) -> None:
        super().__init__()
        self._nest = 0
        self.outer: list[n.For] = []  # the loops around the statement being written
        self._formats: dict[n.Var, list[str]] = {}
        for node in walk(body):
            if isinstance(node, n.BufferLoad | n.BufferStore):
                code = storage(node.buffer.dtype)
                formats = self._formats.setdefault(node.buffer.data, [])
                if code not in formats:
                    formats.append(code)

    def stmt(self, stmt: Stmt) -> None:
        rule = _RULES.get(type(stmt))
        if rule is None:
            raise LoweringError(f"the interpreter has no rule for {type(stmt).__name__}")
        rule(self, stmt)

    def block(self, stmt: Stmt) -> None:
        """`stmt` one level deeper."""
        self.depth += 1
        before = len(self.lines)
        self.stmt(stmt)
        if len(self.lines) == before:
            self.line("pass")
        self.depth -= 1

    def loop(self, header: str, body: Stmt) -> None:
        if self._nest < self.MAX_NEST:
            self.line(header)
            self._nest += 1
            self.block(body)
            self._nest -= 1
            return
        name, nest = self.fresh("nest"), self._nest
        self.line(f"def {name}():")
        self.depth += 1
        self._nest = 0
        self.loop(header, body)
        if self.in_generator:
            self.line("yield from ()")
        self.depth -= 1
        self._nest = nest
        self.line(f"yield from {name}()" if self.in_generator else f"{name}()")

    @property
    def in_generator(self) -> bool:
        """Whether the lines written now are a generator's, so that a function which they call is one, too."""
        return False

    def data(self, var: n.Var, name: str, code: str) -> None:
        """Let `name` be the memory behind `var`, also seen in every other format it is used in."""
        self.memory.define(var, code, name)
        for other in self._formats.get(var, ()):
            if other != code:
                alias = self.fresh("m")
                self.line(f"{alias} = reinterpreted({name}, {other!r})")
                self.memory.define(var, other, alias)

    def allocate(self, var: n.Var, extents: tuple[PrimExpr, ...], dtype: str, scope: str = "global") -> None:
        """Fresh memory behind `var`, of a `scope` that matters only where threads run at once."""
        size = "*".join(f"({self.index(e).code})" for e in extents) or "1"
        name = self.fresh("m")
        self.line(f"{name} = allocate({size}*{lanes_of(dtype)}, {element_of(dtype)!r})")
        self.data(var, name, storage(dtype))


# --------------------------------------------------------------------------------- statements


def _seq(w: StmtWriter, s: n.SeqStmt) -> None:
    for item in s.seq:
        w.stmt(item)


def _for(w: StmtWriter, s: n.For) -> None:
    low, extent = w.index(s.min), w.index(s.extent)
    hi: Bound = None if low.hi is None or extent.hi is None else low.hi + extent.hi - 1
    name = w.define(s.loop_var, low.lo, hi)
    if extent.lo is None or extent.lo < 1:
        _empty_reduction(w, s, extent.code)
    w.outer.append(s)
    if extent.code == "1":
        w.line(f"{name} = {low.code}")
        w.stmt(s.body)
    elif low.code == "0":
        w.loop(f"for {name} in range({extent.code}):", s.body)
    else:
        start = w.name_of(low)
        w.loop(f"for {name} in range({start}, {start} + {extent.code}):", s.body)
    w.outer.pop()


def _empty_reduction(w: StmtWriter, s: n.For, extent: str) -> None:
    """Run the inits under a reducing loop, even if the loop has no iterations."""
    inits = _inits_without(s)
    if inits is None:
        return
    before = [f for f in w.outer if _inits_without(f) is not None]
    first = [f"{w.index(f.loop_var).code} == {w.index(f.min).code}" for f in before]
    w.line(f"if {' and '.join([f'{extent} <= 0', *first])}:")
    w.block(inits)


def _while(w: StmtWriter, s: n.While) -> None:
    lines, condition = w.captured(lambda: w.value(s.condition))
    w.line("while True:")
    w.lines.extend(lines)
    w.depth += 1
    w.line(f"if not {condition.code}: break")
    w.depth -= 1
    w.block(s.body)


def _if(w: StmtWriter, s: n.IfThenElse) -> None:
    w.line(f"if {w.condition(s.condition)}:")
    w.block(s.then_case)
    if s.else_case is not None:
        w.line("else:")
        w.block(s.else_case)


def _let(w: StmtWriter, s: n.LetStmt) -> None:
    bind(w, s.var, s.value)
    w.stmt(s.body)


def _attr(w: StmtWriter, s: n.AttrStmt) -> None:
    if s.attr_key == "thread_extent" and isinstance(s.node, n.IterVar):
        extent = w.index(s.value)
        name = w.define(s.node.var, 0, None if extent.hi is None else extent.hi - 1)
        w.loop(f"for {name} in range({extent.code}):", s.body)
    else:
        w.stmt(s.body)


def _assert(w: StmtWriter, s: n.AssertStmt) -> None:
    text = s.message.value if isinstance(s.message, n.StringImm) else "assertion failed"
    w.line(f"if not {w.condition(s.condition)}: failed({text!r})")
    w.stmt(s.body)


def _evaluate(w: StmtWriter, s: n.Evaluate) -> None:
    for lane in range(lanes_of(s.value.dtype)):
        w.line(w.value(s.value, lane).code)


def _allocate(w: StmtWriter, s: n.Allocate) -> None:
    w.allocate(s.buffer_var, s.extents, s.dtype, s.scope)
    w.stmt(s.body)


def _store(w: StmtWriter, s: n.BufferStore) -> None:
    lanes = lanes_of(s.value.dtype)
    if lanes == 1 and s.predicate is None:
        value = _stored(w, s, 0)
        memory, at = w.place(s.buffer, s.indices, 0)
        w.line(f"{memory}[{at}] = {value.code}")
    else:
        w.sharing(lambda: _store_lanes(w, s, lanes))


def _store_lanes(w: StmtWriter, s: n.BufferStore, lanes: int) -> None:
    """Every lane is computed before the first is stored."""
    masks: list[str] = []
    values: list[str] = []
    for lane in range(lanes):
        name = w.fresh("t")
        values.append(name)
        if s.predicate is None:
            w.line(f"{name} = {_stored(w, s, lane).code}")
            continue
        mask = w.fresh("t")
        w.line(f"{mask} = {w.condition(s.predicate, lane)}")
        masks.append(mask)

        def compute(lane: int = lane, name: str = name) -> str:
            return f"{name} = {_stored(w, s, lane).code}"

        _guarded(w, mask, compute)
    for lane, value in enumerate(values):

        def store(lane: int = lane, value: str = value) -> str:
            memory, at = w.place(s.buffer, s.indices, lane)
            return f"{memory}[{at}] = {value}"

        if masks:
            _guarded(w, masks[lane], store)
        else:
            w.line(store())


def _guarded(w: StmtWriter, condition: str, write: Callable[[], str]) -> None:
    lines, last = w.captured(lambda: ValueCode(write()))
    w.line(f"if {condition}:")
    w.lines.extend([*lines, " " * (w.depth + 1) + last.code])


def _stored(w: StmtWriter, s: n.BufferStore, lane: int) -> ValueCode:
    """The value to store: memory itself rounds a float32."""
    dtype = element_of(s.buffer.dtype)
    lane = lane if lanes_of(s.value.dtype) > 1 else 0
    if dtype in ("float32", "float64"):
        return w.raw(s.value, lane)
    value = w.value(s.value, lane)
    if dtype in ("float16", "bfloat16"):
        return ValueCode(f"{dtype}_bits({value.code})")
    return value


def _declare(w: StmtWriter, s: n.DeclBuffer) -> None:
    w.stmt(s.body)


# ----------------------------------------------------------- reductions without iterations


def _inits_without(loop: n.For) -> Stmt | None:
    """The inits of the blocks that `loop` reduces, over the other loops in it.
    None if it reduces nothing."""
    reduced = {
        var
        for node in walk(loop)
        if isinstance(node, n.BlockRealize) and node.block.init is not None
        for iv, value in zip(node.block.iter_vars, node.iter_values)
        if iv.iter_type is IterType.COMM_REDUCE
        for var in free_vars(value)
    }
    return _inits_in(loop.body, reduced) if loop.loop_var in reduced else None


def _inits_in(stmt: Stmt, reduced: set[n.Var]) -> Stmt | None:
    match stmt:
        case n.For():
            body = _inits_in(stmt.body, reduced)
            if body is None or stmt.loop_var in reduced:
                return body
            return replace(stmt, body=body)
        case n.SeqStmt():
            found = [part for part in (_inits_in(item, reduced) for item in stmt.seq) if part is not None]
            return seq(*found) if found else None
        case n.IfThenElse() | n.LetStmt() | n.AttrStmt():
            field = "then_case" if isinstance(stmt, n.IfThenElse) else "body"
            body = _inits_in(getattr(stmt, field), reduced)
            return None if body is None else replace(stmt, **{field: body})
        case n.BlockRealize() if stmt.block.init is not None:
            return _init_without(stmt, reduced)
    return None


def _init_without(realize: n.BlockRealize, reduced: set[n.Var]) -> Stmt | None:
    """Return None for a loop over both data and the reduction: without iterations it has no data either."""
    block = realize.block
    kept = [(iv, v) for iv, v in zip(block.iter_vars, realize.iter_values) if iv.iter_type is not IterType.COMM_REDUCE]
    if any(free_vars(value) & reduced for _, value in kept):
        return None
    gone = reduced | {iv.var for iv in block.iter_vars if iv.iter_type is IterType.COMM_REDUCE}
    guard = ops.logical_and(*(c for c in conjuncts(realize.predicate) if not free_vars(c) & gone))
    assert block.init is not None
    init = n.Block(
        tuple(iv for iv, _ in kept), (), (), block.name_hint, block.init, None, block.alloc_buffers, block.match_buffers
    )
    return n.BlockRealize(tuple(value for _, value in kept), guard, init)


# ------------------------------------------------------------------------------------ blocks


def _realize(w: StmtWriter, s: n.BlockRealize) -> None:
    block = s.block
    ranges = []
    for iter_var, value in zip(block.iter_vars, s.iter_values):
        found = w.index(value)
        low, high = _domain(w, iter_var)
        inside = (
            found.lo is not None and found.hi is not None and low.hi is not None and high.lo is not None
            and low.hi <= found.lo and found.hi < high.lo
        )  # fmt: skip
        if inside and found.code.isidentifier():  # the loop variable itself
            w.vars[iter_var.var] = found
            continue
        name = w.define(iter_var.var, low.lo, None if high.hi is None else high.hi - 1)
        w.line(f"{name} = {found.code}")
        if not inside:
            ranges.append((iter_var, name, low.code, high.code))
    guarded = not ops.is_const(s.predicate, 1)
    if guarded:
        w.line(f"if {w.condition(s.predicate)}:")
        w.depth += 1
    for iter_var, name, start, end in ranges:
        where = f"{block.name_hint!r}, {iter_var.var.name!r}"
        w.line(f"if not {start} <= {name} < {end}: outside_domain({where}, {name}, {start}, {end})")
    _block(w, block)
    if guarded:
        w.line("pass")
        w.depth -= 1


def _domain(w: StmtWriter, iter_var: n.IterVar) -> tuple[ValueCode, ValueCode]:
    """First value of an iteration variable, and the value past its last."""
    assert iter_var.dom is not None
    return w.index(iter_var.dom.min), w.index(n.Add(iter_var.dom.min, iter_var.dom.extent))


def _block(w: StmtWriter, block: n.Block) -> None:
    for buffer in block.alloc_buffers:
        w.allocate(buffer.data, buffer.shape, buffer.dtype, buffer.scope)
    for match in block.match_buffers:
        _match(w, match.buffer, match.source)
    if block.init is not None:
        reduced = [iv for iv in block.iter_vars if iv.iter_type is IterType.COMM_REDUCE]
        starts = [f"{w.index(iv.var).code} == {_domain(w, iv)[0].code}" for iv in reduced]
        w.line(f"if {' and '.join(starts) or 'True'}:")
        w.block(block.init)
    w.stmt(block.body)


def _match(w: StmtWriter, buffer: n.Buffer, source: n.BufferRegion) -> None:
    """Make `buffer` a view of a region.
    Its symbolic shape, strides and offset get their values from there."""
    memory = w.memory.of(source.buffer)
    steps = w.strides(source.buffer)
    parts = [f"({w.index(dim.min).code})*{step}" for dim, step in zip(source.region, steps)]
    base = w.memory.offset(source.buffer)
    offset = w.fresh("t")
    w.line(f"{offset} = {' + '.join([*parts, *([base] if base else [])]) or '0'}")
    missing = len(source.region) - len(buffer.shape)
    for dim, extent in zip(buffer.shape, source.region[missing:]):
        _take(w, dim, w.index(extent.extent).code)
    for stride, step in zip(buffer.strides, steps[missing:]):
        _take(w, stride, step)
    if buffer.elem_offset is not None:
        _take(w, buffer.elem_offset, offset)
    w.memory.define_view(buffer, memory, steps[missing:], offset)
    w.memory.define(buffer.data, storage(buffer.dtype), memory)


def _take(w: StmtWriter, expr: PrimExpr, code: str) -> None:
    if isinstance(expr, n.Var) and expr not in w.vars:
        w.line(f"{w.define(expr, None, None)} = {code}")


_RULES: dict[type, Callable[[StmtWriter, Any], None]] = {
    n.SeqStmt: _seq, n.For: _for, n.While: _while, n.IfThenElse: _if, n.LetStmt: _let, n.AttrStmt: _attr,
    n.AssertStmt: _assert, n.Evaluate: _evaluate, n.Allocate: _allocate, n.BufferStore: _store,
    n.BlockRealize: _realize, n.DeclBuffer: _declare,
}  # fmt: skip
