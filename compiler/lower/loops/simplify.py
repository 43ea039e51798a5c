"""Put index arithmetic, conditions and loop bounds in normal form, and remove code that never runs.

for i in 1: for j in 4:                  for j in 4:
  if i*4 + j < 4:               →          A[j] = 0
    A[(i*4 + j)//1 + 0] = 0
"""

from __future__ import annotations

from compiler.arith.analyzer import Analyzer
from compiler.dtype import element_of
from compiler.ir.base import Node, Op
from compiler.ir.visit import map_children, replace
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import ForKind, PrimExpr, Stmt
from compiler.tir.transform import tir_pass
from compiler.tir.verify import LoweringStage
from compiler.tir.visit import seq

NOTHING = n.Evaluate(n.IntImm("int32", 0))
_INDEX = ("int32", "int64")
_LIKELY = Op.get("tir.likely")
_IF_THEN_ELSE = Op.get("tir.if_then_else")


@tir_pass("Simplify", gives=LoweringStage.FLAT)
def simplify(func: n.PrimFunc) -> n.PrimFunc:
    """Simplify expressions, and remove what has no effect.

    Index arithmetic is simplified under the loops' ranges; loops of one iteration and dead branches go. Arithmetic on
    data is left as it was written.
    """
    return func.with_body(Simplifier(Analyzer()).stmt(func.body))


@tir_pass("SimplifyTiles", opt_level=1, gives=LoweringStage.FLAT)
def simplify_tiles(func: n.PrimFunc) -> n.PrimFunc:
    """Simplify what SplitTails, HoistGuards and LoopPartition made."""
    return simplify(func)


def is_nothing(stmt: Stmt) -> bool:
    """Whether `stmt` has no effect."""
    match stmt:
        case n.Evaluate():
            return isinstance(stmt.value, n.IntImm | n.FloatImm | n.Var)
        case n.SeqStmt():
            return all(is_nothing(part) for part in stmt.seq)
    return False


class Simplifier:
    """Rewrites statements under an analyzer that learns each loop's range."""

    def __init__(self, analyzer: Analyzer) -> None:
        self.analyzer = analyzer
        self._seen: dict[int, tuple[PrimExpr, PrimExpr]] = {}

    # -- expressions -----------------------------------------------------------------------------
    def index(self, expr: PrimExpr) -> PrimExpr:
        """An expression used as an index, a bound or a condition, in normal form."""
        if isinstance(expr, n.IntImm):
            return expr
        found = self._seen.get(id(expr))
        if found is None:
            inner = map_children(expr, self._inside) if _holds_loads(expr) else expr
            if element_of(inner.dtype) in _INDEX or element_of(inner.dtype) == "bool":
                inner = self.analyzer.simplify(inner)
            found = self._seen[id(expr)] = (expr, inner)
        return found[1]

    def _inside(self, node: Node) -> Node:
        assert isinstance(node, PrimExpr)
        return self.value(node)

    def value(self, expr: PrimExpr) -> PrimExpr:
        """An expression that is data: only the indices and conditions in it change."""
        match expr:
            case n.IntImm() | n.FloatImm() | n.Broadcast(value=n.FloatImm()):
                return expr
            case n.Var():
                return self.index(expr)
            case n.BufferLoad():
                indices = tuple(self.index(i) for i in expr.indices)
                predicate = None if expr.predicate is None else self.index(expr.predicate)
                if predicate is expr.predicate and all(a is b for a, b in zip(indices, expr.indices)):
                    return expr
                return replace(expr, indices=indices, predicate=predicate)
            case n.Select():
                return self._choice(expr, self.index(expr.condition), expr.true_value, expr.false_value)
            case n.Call() if expr.op is _IF_THEN_ELSE:
                return self._choice(expr, self.index(expr.args[0]), expr.args[1], expr.args[2])
        return map_children(expr, self._inside)

    def _choice(self, expr: n.Select | n.Call, condition: PrimExpr, yes: PrimExpr, no: PrimExpr) -> PrimExpr:
        if isinstance(condition, n.IntImm):
            return self.value(yes if condition.value else no)
        parts = (condition, self.value(yes), self.value(no))
        if isinstance(expr, n.Select):
            return n.Select(*parts, expr.span)
        return replace(expr, args=parts)

    # -- statements ------------------------------------------------------------------------------
    def stmt(self, stmt: Stmt) -> Stmt:
        match stmt:
            case n.For():
                return self._for(stmt)
            case n.SeqStmt():
                parts = [self.stmt(part) for part in stmt.seq]
                if all(a is b for a, b in zip(parts, stmt.seq)):
                    return stmt
                return seq(*(part for part in parts if not is_nothing(part)))
            case n.BufferStore():
                return self._store(stmt)
            case n.IfThenElse():
                return self._if(stmt)
            case n.Allocate():
                body = self.stmt(stmt.body)
                extents = tuple(self.index(e) for e in stmt.extents)
                return body if is_nothing(body) else replace(stmt, body=body, extents=extents)
            case n.LetStmt():
                return replace(stmt, value=self.value(stmt.value), body=self.stmt(stmt.body))
        rebuilt = map_children(stmt, self._child)
        if isinstance(rebuilt, n.AttrStmt) and is_nothing(rebuilt.body):
            return rebuilt.body
        return rebuilt

    def _child(self, node: Node) -> Node:
        return self.stmt(node) if isinstance(node, Stmt) else self._inside(node)

    def _for(self, loop: n.For) -> Stmt:
        low, extent = self.index(loop.min), self.index(loop.extent)
        size = ops.as_int(extent)
        if size is not None and size <= 0:
            return NOTHING
        self.analyzer.bind(loop.loop_var, n.Range(low, extent))
        body = self.stmt(loop.body)
        if is_nothing(body):
            return NOTHING
        if size == 1 and loop.kind is not ForKind.THREAD_BINDING:
            return body  # the analyzer has put the only value in the variable's place
        if low is loop.min and extent is loop.extent and body is loop.body:
            return loop
        return replace(loop, min=low, extent=extent, body=body)

    def _store(self, stmt: n.BufferStore) -> Stmt:
        value = self.value(stmt.value)
        indices = tuple(self.index(i) for i in stmt.indices)
        predicate = None if stmt.predicate is None else self.index(stmt.predicate)
        same = value is stmt.value and predicate is stmt.predicate
        if same and all(a is b for a, b in zip(indices, stmt.indices)):
            return stmt
        return replace(stmt, value=value, indices=indices, predicate=predicate)

    def _if(self, stmt: n.IfThenElse) -> Stmt:
        condition = self.index(stmt.condition)
        if isinstance(condition, n.IntImm):
            taken = stmt.then_case if condition.value else stmt.else_case
            return NOTHING if taken is None else self.stmt(taken)
        then = self.stmt(stmt.then_case)
        other = None if stmt.else_case is None else self.stmt(stmt.else_case)
        if other is not None and is_nothing(other):
            other = None
        if is_nothing(then):
            if other is None:
                return NOTHING
            return n.IfThenElse(ops.logical_not(condition), other)
        if condition is stmt.condition and then is stmt.then_case and other is stmt.else_case:
            return stmt
        return n.IfThenElse(condition, then, other)


def _holds_loads(expr: PrimExpr) -> bool:
    match expr:
        case n.Var() | n.IntImm() | n.FloatImm():
            return False
        case n.BinaryOp():
            return _holds_loads(expr.a) or _holds_loads(expr.b)
        case n.Ramp():
            return _holds_loads(expr.base)
        case n.Broadcast() | n.Cast():
            return _holds_loads(expr.value)
        case n.Not():
            return _holds_loads(expr.a)
    return True
