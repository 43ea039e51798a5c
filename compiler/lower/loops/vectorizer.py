"""The body of one vectorized loop, all iterations at once."""

from __future__ import annotations

from collections.abc import Callable

from compiler.arith.bounds import POS
from compiler.dtype import element_of, lanes_of, parse_dtype, with_lanes
from compiler.ir.base import GlobalVar, Node, Op
from compiler.ir.visit import children, map_children, replace, walk
from compiler.lower.analysis.conditions import conjunction, conjuncts
from compiler.lower.analysis.guards import comparison
from compiler.lower.analysis.linear import LinearForms
from compiler.lower.loops.simplify import NOTHING
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr, Stmt
from compiler.tir.visit import seq, substitute

_IF_THEN_ELSE = Op.get("tir.if_then_else")
_LIKELY = Op.get("tir.likely")


class CannotVectorize(Exception):
    """The loop has a construct without a vector form."""


class Vectorizer:
    """Rewrites expressions and statements with `var` standing for every lane of `ramp`.

    Expressions that do not depend on `var` stay scalar until a vector needs them. A `mask` is the condition,
    a bool for each lane, under which a statement runs.
    """

    def __init__(self, var: n.Var, ramp: n.Ramp) -> None:
        self.lanes = ramp.lanes
        self._values: dict[n.Var, PrimExpr] = {var: ramp}
        self._seen: dict[tuple[int, int], tuple[PrimExpr, PrimExpr | None, PrimExpr]] = {}
        self._forms = LinearForms()
        self._tests: list[PrimExpr] = []  # the conditions by lane around the statement at hand

    # -- statements ------------------------------------------------------------------------------
    def stmt(self, stmt: Stmt, mask: PrimExpr | None) -> Stmt:
        match stmt:
            case n.BufferStore():
                return self._store(stmt, mask)
            case n.SeqStmt():
                return seq(*(self.stmt(part, mask) for part in stmt.seq))
            case n.IfThenElse():
                return self._if(stmt, mask)
            case n.For():
                low, extent = self.expr(stmt.min, mask), self.expr(stmt.extent, mask)
                if self._is_vector(low) or self._is_vector(extent):
                    raise CannotVectorize
                return replace(stmt, min=low, extent=extent, body=self.stmt(stmt.body, mask))
            case n.LetStmt():
                value = self.expr(stmt.value, mask)
                if not self._is_vector(value):
                    return replace(stmt, value=value, body=self.stmt(stmt.body, mask))
                var = n.Var(stmt.var.name, value.dtype)
                self._values[stmt.var] = var
                return n.LetStmt(var, value, self.stmt(stmt.body, mask), stmt.span)
            case n.AttrStmt():
                return replace(stmt, body=self.stmt(stmt.body, mask))
            case n.Evaluate() if isinstance(stmt.value, n.IntImm):
                return stmt
        raise CannotVectorize

    def _store(self, stmt: n.BufferStore, mask: PrimExpr | None) -> Stmt:
        if stmt.predicate is not None or lanes_of(stmt.buffer.dtype) != 1:
            raise CannotVectorize
        value = self.expr(stmt.value, mask)
        indices = tuple(self.expr(i, mask) for i in stmt.indices)
        *outer, last = indices
        if any(self._is_vector(i) for i in outer):
            raise CannotVectorize
        if self._is_vector(last):
            return n.BufferStore(stmt.buffer, self.wide(value), indices, mask, stmt.span)
        rereads = any(isinstance(x, n.BufferLoad) and x.buffer.data is stmt.buffer.data for x in walk(stmt.value))
        if mask is not None or self._is_vector(value) or rereads:
            raise CannotVectorize  # each iteration replaces or extends what the one before stored
        return n.BufferStore(stmt.buffer, value, indices, None, stmt.span)

    def _if(self, stmt: n.IfThenElse, mask: PrimExpr | None) -> Stmt:
        condition = self.expr(stmt.condition, mask)
        if isinstance(condition, n.IntImm):
            taken = stmt.then_case if condition.value else stmt.else_case
            return self.stmt(taken, mask) if taken is not None else NOTHING
        if not self._is_vector(condition):
            other = None if stmt.else_case is None else self.stmt(stmt.else_case, mask)
            return n.IfThenElse(condition, self.stmt(stmt.then_case, mask), other)
        then = self._masked(stmt.condition, stmt.then_case, self._both(mask, condition))
        if stmt.else_case is None:
            return then
        refused = n.Not(stmt.condition)
        return seq(then, self._masked(refused, stmt.else_case, self._both(mask, n.Not(condition))))

    def _both(self, mask: PrimExpr | None, condition: PrimExpr) -> PrimExpr:
        return condition if mask is None else n.And(mask, condition)

    def _masked(self, condition: PrimExpr, body: Stmt, mask: PrimExpr) -> Stmt:
        """`body` under a mask. What reads memory for all lanes at once runs only where some lane does."""
        self._tests.append(condition)
        result = self.stmt(body, mask)
        some = self._some_lane() if _scalar_reads(result) else None
        self._tests.pop()
        return result if some is None else n.IfThenElse(some, result)

    def _some_lane(self) -> PrimExpr:
        """The scalar condition that some lane passes all tests so far.
        Raises if it has no simple form.

        Comparisons that all get harder (or all easier) from lane to lane hold in the first (last) lane if in any.
        """
        condition = conjunction(self._tests)
        (var, ramp), *_ = self._values.items()
        assert isinstance(ramp, n.Ramp)
        directions: set[bool] = set()
        for part in conjuncts(condition):
            found = comparison(part, self._forms)
            if found is None:
                raise CannotVectorize
            scales = [scale for atom, scale in found[0] if atom is var]
            if any(atom is not var and self._is_vector(self.expr(atom, None)) for atom, _ in found[0]):
                raise CannotVectorize
            directions.update(scale > 0 for scale in scales)
        if len(directions) != 1:
            raise CannotVectorize
        lane = 0 if directions.pop() else self.lanes - 1
        at = ops.add(ramp.base, lane)
        return substitute(condition, {var: at})

    # -- expressions -----------------------------------------------------------------------------
    def _is_vector(self, expr: PrimExpr) -> bool:
        return lanes_of(expr.dtype) != 1

    def wide(self, expr: PrimExpr) -> PrimExpr:
        """`expr` with a value for each lane."""
        return expr if self._is_vector(expr) else n.Broadcast(expr, self.lanes)

    def expr(self, expr: PrimExpr, mask: PrimExpr | None) -> PrimExpr:
        """`expr` for all lanes; the same object when it does not depend on the loop variable."""
        if isinstance(expr, n.IntImm | n.FloatImm | n.StringImm):
            return expr
        key = (id(expr), id(mask))
        found = self._seen.get(key)
        if found is None:
            found = self._seen[key] = (expr, mask, self._expr(expr, mask))
        return found[2]

    def _expr(self, expr: PrimExpr, mask: PrimExpr | None) -> PrimExpr:
        match expr:
            case n.Var():
                return self._values.get(expr, expr)
            case n.Add() | n.Sub() | n.Mul():
                return self._sum(expr, self.expr(expr.a, mask), self.expr(expr.b, mask))
            case n.Div() | n.Mod() | n.FloorDiv() | n.FloorMod():
                return self._division(expr, mask)
            case n.BinaryOp() | n.Not() | n.Cast():
                return self._lanewise(expr, mask)
            case n.Select():
                return self._choice(expr, expr.condition, expr.true_value, expr.false_value, mask)
            case n.BufferLoad():
                return self._load(expr, mask)
            case n.Let():
                value = self.expr(expr.value, mask)
                if self._is_vector(value):
                    self._values[expr.var] = var = n.Var(expr.var.name, value.dtype)
                else:
                    var = expr.var
                return n.Let(var, value, self.expr(expr.body, mask), expr.span)
            case n.Call():
                return self._call(expr, mask)
        raise CannotVectorize  # vectors in a vectorized loop, and what is no expression of lowered code

    def _lanewise(self, expr: PrimExpr, mask: PrimExpr | None) -> PrimExpr:
        """An operation on every lane; `expr` itself where no operand depends on the lane."""
        vector = False

        def operand(node: Node) -> Node:
            nonlocal vector
            assert isinstance(node, PrimExpr)
            new = self.expr(node, mask)
            vector = vector or self._is_vector(new)
            return new

        def widened(node: Node) -> Node:
            assert isinstance(node, PrimExpr)
            return self.wide(self.expr(node, mask))

        for child in children(expr):
            operand(child)
        if isinstance(expr, n.And | n.Or):
            a, b = self.expr(expr.a, mask), self.expr(expr.b, mask)
            if isinstance(a, n.IntImm) or isinstance(b, n.IntImm):
                return ops.binary(type(expr), a, b)
        if not vector:
            return map_children(expr, operand)
        if isinstance(expr, n.Cast):
            value = self.expr(expr.value, mask)
            if isinstance(value, n.Ramp) and self._is_widened_index(expr, value):
                return n.Ramp(ops.cast(expr.dtype, value.base), ops.cast(expr.dtype, value.stride), self.lanes)
            return n.Cast(with_lanes(expr.dtype, self.lanes), self.wide(value))
        if isinstance(expr, n.CmpOp) and (known := self._same_in_each_lane(expr, mask)) is not None:
            return known
        return map_children(expr, widened)

    def _is_widened_index(self, expr: n.Cast, lanes: n.Ramp) -> bool:
        """Whether a cast gives `lanes`, which are indices one apart, more bits. The first lane can be cast then."""
        wide, narrow = parse_dtype(expr.dtype), parse_dtype(lanes.base.dtype)
        if wide.code != "int" or narrow.code != "int" or wide.bits <= narrow.bits or ops.as_int(lanes.stride) != 1:
            return False
        high = self._forms.bounds(lanes.base)[1]
        return self._forms.is_index(lanes.base) and (high == POS or high + lanes.lanes <= 1 << narrow.bits - 1)

    def _same_in_each_lane(self, expr: n.CmpOp, mask: PrimExpr | None) -> PrimExpr | None:
        """The result of a comparison of constants by lane, when it is one for all lanes."""
        a, b = _constant_lanes(self.expr(expr.a, mask)), _constant_lanes(self.expr(expr.b, mask))
        if a is None or b is None:
            return None
        found = {ops.as_int(ops.binary(type(expr), a(lane), b(lane))) for lane in range(self.lanes)}
        return ops.const(bool(found.pop())) if len(found) == 1 else None

    def _sum(self, expr: n.BinaryOp, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        if not self._is_vector(a) and not self._is_vector(b):
            return expr if a is expr.a and b is expr.b else type(expr)(a, b)
        if isinstance(expr, n.Mul):
            if isinstance(a, n.Ramp) and not self._is_vector(b):
                return n.Ramp(ops.mul(a.base, b), ops.mul(a.stride, b), self.lanes)
            if isinstance(b, n.Ramp) and not self._is_vector(a):
                return n.Ramp(ops.mul(a, b.base), ops.mul(a, b.stride), self.lanes)
            return n.Mul(self.wide(a), self.wide(b))
        combine = ops.add if isinstance(expr, n.Add) else ops.sub
        if isinstance(a, n.Ramp) and not self._is_vector(b):
            return n.Ramp(combine(a.base, b), a.stride, self.lanes)
        if isinstance(b, n.Ramp) and not self._is_vector(a):
            stride = b.stride if isinstance(expr, n.Add) else ops.neg(b.stride)
            return n.Ramp(combine(a, b.base), stride, self.lanes)
        if isinstance(a, n.Ramp) and isinstance(b, n.Ramp):
            return n.Ramp(combine(a.base, b.base), combine(a.stride, b.stride), self.lanes)
        return type(expr)(self.wide(a), self.wide(b))

    def _division(self, expr: n.BinaryOp, mask: PrimExpr | None) -> PrimExpr:
        a, b = self.expr(expr.a, mask), self.expr(expr.b, mask)
        if not self._is_vector(a) and not self._is_vector(b):
            return expr if a is expr.a and b is expr.b else type(expr)(a, b)
        constant = isinstance(b, n.IntImm | n.FloatImm)
        if mask is not None and not constant and not element_of(a.dtype).startswith(("float", "bfloat")):
            raise CannotVectorize  # a lane that is masked off may divide by zero
        if isinstance(expr, n.FloorDiv | n.FloorMod) and isinstance(a, n.Ramp) and isinstance(b, n.IntImm):
            found = self._within_one(expr, a, b.value)
            if found is not None:
                return found
        return type(expr)(self.wide(a), self.wide(b))

    def _within_one(self, expr: n.FloorDiv | n.FloorMod, a: n.Ramp, b: int) -> PrimExpr | None:
        """ramp // b or ramp % b where all lanes lie between two multiples of b."""
        if ops.as_int(a.stride) != 1 or b <= 0 or not self._forms.is_index(a.base):
            return None
        form = self._forms.form(a.base)
        start = form.offset % b
        if any(scale % b for _, scale in form.terms) or start + self.lanes > b:
            return None
        if isinstance(expr, n.FloorDiv):
            return ops.floordiv(a.base, b)
        return n.Ramp(ops.const(start, a.base.dtype), a.stride, self.lanes)

    def _load(self, expr: n.BufferLoad, mask: PrimExpr | None) -> PrimExpr:
        if expr.predicate is not None or lanes_of(expr.buffer.dtype) != 1:
            raise CannotVectorize
        indices = tuple(self.expr(i, mask) for i in expr.indices)
        if not any(self._is_vector(i) for i in indices):
            return expr if all(a is b for a, b in zip(indices, expr.indices)) else replace(expr, indices=indices)
        if any(self._is_vector(i) for i in indices[:-1]):
            raise CannotVectorize
        return n.BufferLoad(expr.buffer, indices, mask, expr.span)

    def _choice(self, expr: PrimExpr, test: PrimExpr, yes: PrimExpr, no: PrimExpr, mask: PrimExpr | None) -> PrimExpr:
        """A Select: both sides are evaluated, so neither needs more of a mask."""
        condition, a, b = self.expr(test, mask), self.expr(yes, mask), self.expr(no, mask)
        if not any(self._is_vector(x) for x in (condition, a, b)):
            unchanged = condition is test and a is yes and b is no
            return expr if unchanged else n.Select(condition, a, b)
        return n.Select(self.wide(condition), self.wide(a), self.wide(b))

    def _call(self, call: n.Call, mask: PrimExpr | None) -> PrimExpr:
        if isinstance(call.op, GlobalVar) or not call.op.pure:
            raise CannotVectorize
        if call.op is _IF_THEN_ELSE:
            return self._if_then_else(call, mask)
        if call.op is _LIKELY:
            return self.expr(call.args[0], mask)
        args = [self.expr(a, mask) for a in call.args]
        if any(self._is_vector(a) for a in args):
            wide = tuple(self.wide(a) for a in args)
            return n.Call(with_lanes(call.dtype, self.lanes), call.op, wide, call.span)
        if all(a is b for a, b in zip(args, call.args)):
            return call
        return n.Call(call.dtype, call.op, tuple(args), call.span)

    def _if_then_else(self, call: n.Call, mask: PrimExpr | None) -> PrimExpr:
        """A choice by lane reads only the lanes each side is taken in."""
        test, yes, no = call.args
        condition = self.expr(test, mask)
        if isinstance(condition, n.IntImm):
            return self.expr(yes if condition.value else no, mask)
        if not self._is_vector(condition):
            a, b = self.expr(yes, mask), self.expr(no, mask)
            if not self._is_vector(a) and not self._is_vector(b):
                return replace(call, args=(condition, a, b))
            dtype = with_lanes(call.dtype, self.lanes)
            return n.Call(dtype, call.op, (condition, self.wide(a), self.wide(b)), call.span)
        a = self.expr(yes, self._both(mask, condition))
        b = self.expr(no, self._both(mask, n.Not(condition)))
        for side in (a, b):
            if _scalar_reads(side):
                raise CannotVectorize  # the place read may not exist where no lane takes this side
        if isinstance(a, n.BufferLoad) and ops.is_const(b, 0):
            return a  # lanes that are not read are 0
        return n.Select(condition, self.wide(a), self.wide(b))


def _constant_lanes(expr: PrimExpr) -> Callable[[int], int] | None:
    """The value of each lane, of a ramp of constants or a constant."""
    match expr:
        case n.IntImm(value=value):
            return lambda lane: value
        case n.Ramp(base=n.IntImm(value=base), stride=n.IntImm(value=stride)):
            return lambda lane: base + lane * stride
    return None


def _scalar_reads(node: Node) -> bool:
    return any(isinstance(x, n.BufferLoad) and lanes_of(x.dtype) == 1 for x in walk(node))
