"""Reductions of blocks: their values and how they combine, such as a maximum and its place."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from compiler.ir.structural import structural_equal
from compiler.ir.visit import walk
from compiler.schedule.analysis.dataflow import Member
from compiler.schedule.core.state import Illegal
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr, Stmt
from compiler.tir.visit import seq


@dataclass(frozen=True, slots=True)
class ReductionForm:
    """A reduction: target[point] = kind(target[point], source), from `init` on.

    `unit` does not change the result. `kind` is a comparison if the reduction is written as a choice: b where b > a,
    else a.
    """

    target: n.Buffer
    point: tuple[PrimExpr, ...]
    kind: type[n.BinaryOp]
    source: PrimExpr
    init: PrimExpr
    unit: PrimExpr

    def combine(self, own: PrimExpr, source: PrimExpr) -> PrimExpr:
        """`own` with `source` added to it."""
        if issubclass(self.kind, n.GT | n.LT):
            return n.Select(ops.binary(self.kind, source, own), source, own)
        return ops.binary(self.kind, own, source)


Values = tuple[PrimExpr, ...]


@dataclass(frozen=True, slots=True)
class Reductions:
    """One or several values that are reduced together, each in a buffer of its own at the same point."""

    targets: tuple[n.Buffer, ...]
    point: Values
    sources: Values
    inits: Values
    units: Values
    combine: Callable[[Values, Values], Values]
    """The new values, of those so far and of what comes next."""

    def stores(self, buffers: Sequence[n.Buffer], point: Values, values: Values) -> Stmt:
        """Store each value. Several are computed before the first of them is stored."""
        if len(buffers) == 1:
            return n.BufferStore(buffers[0], values[0], point)
        held = [n.Var(f"v_{buffer.name}", buffer.dtype) for buffer in buffers]
        body: Stmt = seq(*(n.BufferStore(buffer, var, point) for buffer, var in zip(buffers, held)))
        for var, value in reversed([*zip(held, values)]):
            body = n.LetStmt(var, value, body)
        return body


def reductions_of(me: Member) -> Reductions:
    """Return what the block reduces. Raises Illegal for a block that is no reduction with its init."""
    if not isinstance(me.block.init, n.SeqStmt):
        form = reduction_of(me)
        return Reductions(
            (form.target,), form.point, (form.source,), (form.init,), (form.unit,),
            lambda own, new: (form.combine(own[0], new[0]),),
        )  # fmt: skip
    inits, updates = _stores(me.block.init), _updates(me)
    by_target = {store.buffer: store.value for store in inits or ()}
    point = updates[0].indices if updates else ()
    if (
        inits is None
        or not updates
        or len(by_target) != len(updates)
        or any(store.buffer not in by_target or not same_point(store.indices, point) for store in (*inits, *updates))
    ):
        raise Illegal(f"block {me.name!r} does not start and update the same elements", me.name)
    targets = tuple(store.buffer for store in updates)
    parts = [_part(me, targets, point, index, store.value) for index, store in enumerate(updates)]
    sources = tuple(part.source for part in parts)
    choices = {
        index: _read(me, part.condition, targets, point, sources)
        for index, part in enumerate(parts)
        if part.condition is not None
    }
    if choices and not _orderless(parts, choices):
        raise Illegal(
            f"block {me.name!r}: which value is chosen depends on the order of the iterations",
            me.name,
            hint="choose by comparing, as `Select(a >= b, a, b)` does",
        )

    def combine(own: Values, new: Values) -> Values:
        return tuple(
            ops.binary(part.kind, own[at], new[at]) if part.kind is not None
            else n.Select(choices[at].of(own, new), *((own[at], new[at]) if part.own_first else (new[at], own[at])))
            for at, part in enumerate(parts)
        )  # fmt: skip

    starts = tuple(by_target[target] for target in targets)
    units = tuple(_unit(part.kind, start) for part, start in zip(parts, starts))
    return Reductions(targets, point, sources, starts, units, combine)


def reduction_of(me: Member) -> ReductionForm:
    """Return the one value that the block reduces, and how.
    Raises Illegal for a block that is no reduction with its init, or reduces several."""
    block, name = me.block, me.name
    update, init = block.body, block.init
    if not isinstance(init, n.BufferStore):
        raise Illegal(f"block {name!r} is no reduction with its init", name, hint="do this before decompose_reduction")
    if isinstance(update, n.BufferStore) and (plain := _plain(update.value, update.buffer, update.indices)) is not None:
        kind, source = plain
        return ReductionForm(update.buffer, update.indices, kind, source, init.value, _unit(kind, init.value))
    if isinstance(update, n.BufferStore) and (chosen := _chosen(update)) is not None:
        return ReductionForm(update.buffer, update.indices, *chosen, init.value, init.value)
    raise Illegal(f"block {name!r} does not combine with +, *, min or max", name)


def _plain(
    value: PrimExpr, target: n.Buffer, point: Values
) -> tuple[type[n.BinaryOp], PrimExpr] | None:  # fmt: skip
    """+, *, min or max of the target's element and a source."""
    if type(value) not in (n.Add, n.Mul, n.Min, n.Max):
        return None
    assert isinstance(value, n.BinaryOp)
    for own, source in ((value.a, value.b), (value.b, value.a)):
        if is_element(own, target, point):
            return type(value), source
    return None


def _unit(kind: type[n.BinaryOp] | None, start: PrimExpr) -> PrimExpr:
    if kind is n.Add:
        return ops.const(0, start.dtype)
    return ops.const(1, start.dtype) if kind is n.Mul else start


def _chosen(update: n.BufferStore) -> tuple[type[n.BinaryOp], PrimExpr] | None:
    """The comparison and the source of target = source where source > target (or <), else target."""
    value = update.value
    if not isinstance(value, n.Select) or not isinstance(value.condition, n.GT | n.LT):
        return None
    source, own, condition = value.true_value, value.false_value, value.condition
    mine = is_element(own, update.buffer, update.indices)
    if mine and structural_equal(condition.a, source) and structural_equal(condition.b, own):
        return type(condition), source
    return None


def is_element(value: PrimExpr, buffer: n.Buffer, point: Values) -> bool:
    """Whether a value is what the buffer holds at the point."""
    return isinstance(value, n.BufferLoad) and value.buffer is buffer and same_point(value.indices, point)


def same_point(a: Values, b: Values) -> bool:
    """Whether two points are surely the same."""
    return len(a) == len(b) and all(x is y or bool(ops.equal(x, y)) for x, y in zip(a, b))


# ------------------------------------------------------------------------- several values at once


@dataclass(frozen=True, slots=True)
class _Part:
    """One of several values: `kind` of the element and the source, or one of the two by a condition."""

    source: PrimExpr
    kind: type[n.BinaryOp] | None = None
    condition: PrimExpr | None = None
    own_first: bool = True


def _stores(stmt: Stmt) -> list[n.BufferStore] | None:
    """The statements of a sequence of stores. None where something else is among them."""
    stmts = stmt.seq if isinstance(stmt, n.SeqStmt) else (stmt,)
    stores = [each for each in stmts if isinstance(each, n.BufferStore)]
    return stores if len(stores) == len(stmts) else None


def _updates(me: Member) -> list[n.BufferStore]:
    """The stores of a block's body, with the values that it computed before."""
    held: dict[n.Var, PrimExpr] = {}
    body = me.block.body
    while isinstance(body, n.LetStmt):
        held[body.var] = body.value
        body = body.body
    stores = _stores(body)
    if stores is None:
        raise Illegal(f"block {me.name!r} holds more than values and their stores", me.name)
    found: list[n.BufferStore] = []
    for store in stores:
        value = held.get(store.value, store.value) if isinstance(store.value, n.Var) else store.value
        if value is store.value and any(_reads(value, earlier.buffer) for earlier in found):
            raise Illegal(f"block {me.name!r} reads {found[0].buffer.name!r} after it stored to it", me.name)
        found.append(n.BufferStore(store.buffer, value, store.indices))
    return found


def _reads(value: PrimExpr, buffer: n.Buffer) -> bool:
    return any(isinstance(node, n.BufferLoad) and node.buffer is buffer for node in walk(value))


def _part(me: Member, targets: Sequence[n.Buffer], point: Values, index: int, value: PrimExpr) -> _Part:
    own = targets[index]
    found: _Part | None = None
    if (plain := _plain(value, own, point)) is not None:
        found = _Part(plain[1], plain[0])
    elif isinstance(value, n.Select) and is_element(value.true_value, own, point):
        found = _Part(value.false_value, None, value.condition)
    elif isinstance(value, n.Select) and is_element(value.false_value, own, point):
        found = _Part(value.true_value, None, value.condition, own_first=False)
    if found is None or any(_reads(found.source, target) for target in targets):
        raise Illegal(f"block {me.name!r} does not combine {own.name!r} with +, *, min, max or a choice", me.name)
    return found


Condition = Callable[[Sequence[PrimExpr], Sequence[PrimExpr]], PrimExpr]
Decision = Callable[[Sequence[int], Sequence[int]], bool]

_COMPARE: dict[type[PrimExpr], Callable[[int, int], bool]] = {
    n.LT: int.__lt__, n.LE: int.__le__, n.GT: int.__gt__, n.GE: int.__ge__, n.EQ: int.__eq__, n.NE: int.__ne__,
}  # fmt: skip
_MOST_COMPARED = 3
"""So many values are compared in one condition at most: all cases of them are tried."""


@dataclass(frozen=True, slots=True)
class _Choice:
    """A condition on the values so far and the next ones: as an expression, and on whole numbers."""

    of: Condition
    decide: Decision
    compared: frozenset[int]


def _read(me: Member, node: PrimExpr, targets: Sequence[n.Buffer], point: Values, sources: Values) -> _Choice:
    kind = type(node)
    if isinstance(node, n.And | n.Or):
        a, b = (_read(me, side, targets, point, sources) for side in (node.a, node.b))
        join = all if isinstance(node, n.And) else any
        return _Choice(
            lambda own, new: kind(a.of(own, new), b.of(own, new)),  # type: ignore[call-arg]
            lambda own, new: join((a.decide(own, new), b.decide(own, new))),
            a.compared | b.compared,
        )
    if isinstance(node, n.Not):
        inner = _read(me, node.a, targets, point, sources)
        return _Choice(
            lambda own, new: n.Not(inner.of(own, new)), lambda own, new: not inner.decide(own, new), inner.compared
        )
    if kind in _COMPARE and isinstance(node, n.BinaryOp):
        for at, (target, source) in enumerate(zip(targets, sources)):
            for own, new in ((node.a, node.b), (node.b, node.a)):
                if is_element(own, target, point) and structural_equal(new, source):
                    return _comparison(kind, at, own is node.a)
    raise Illegal(f"block {me.name!r} chooses by something else than comparing its values", me.name)


def _comparison(kind: type[PrimExpr], at: int, own_first: bool) -> _Choice:
    compare = _COMPARE[kind]
    if own_first:
        return _Choice(
            lambda own, new: kind(own[at], new[at]),  # type: ignore[call-arg]
            lambda own, new: compare(own[at], new[at]),
            frozenset({at}),
        )
    return _Choice(
        lambda own, new: kind(new[at], own[at]),  # type: ignore[call-arg]
        lambda own, new: compare(new[at], own[at]),
        frozenset({at}),
    )


_State = tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]
"""The compared values, and for each choice those of the iteration that it took."""


def _orderless(parts: Sequence[_Part], choices: Mapping[int, _Choice]) -> bool:
    """Whether the same comes out in any order.

    Compared values are the same then, and choices take iterations that are alike in them.
    Values are only compared with their own kind, so three of each show every case.
    """
    compared = sorted(frozenset().union(*(choice.compared for choice in choices.values())))
    if len(compared) > _MOST_COMPARED or any(parts[at].kind in (n.Add, n.Mul) for at in compared):
        return False

    def takes_own(at: int, own: Sequence[int], new: Sequence[int]) -> bool:
        kind = parts[at].kind
        if kind is not None:
            return own[at] <= new[at] if kind is n.Min else own[at] >= new[at]
        return choices[at].decide(own, new) is parts[at].own_first

    def join(a: _State, b: _State) -> _State:
        values = list(a[0])
        for at in compared:
            values[at] = (a if takes_own(at, a[0], b[0]) else b)[0][at]
        taken = tuple((a if takes_own(at, a[0], b[0]) else b)[1][k] for k, at in enumerate(choices))
        return tuple(values), taken

    def state(given: tuple[int, ...]) -> _State:
        values = [0] * len(parts)
        for at, number in zip(compared, given):
            values[at] = number
        return tuple(values), (tuple(values),) * len(choices)

    cases = [state(given) for given in itertools.product(range(3), repeat=len(compared))]
    return all(join(a, b) == join(b, a) for a, b in itertools.product(cases, repeat=2)) and all(
        join(join(a, b), c) == join(a, join(b, c)) for a, b, c in itertools.product(cases, repeat=3)
    )
