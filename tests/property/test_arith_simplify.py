"""Simplification, bounds, proofs and ranges against evaluation over every value of small domains."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from compiler.arith.analyzer import Analyzer
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr, Range
from tests.kit.fuzzing import examples

X, Y, Z = n.Var("x"), n.Var("y"), n.Var("z")
VARS = (X, Y, Z)
RELAXED = settings(max_examples=examples(75), suppress_health_check=list(HealthCheck))

_FOLD = {
    n.Add: lambda a, b: a + b,
    n.Sub: lambda a, b: a - b,
    n.Mul: lambda a, b: a * b,
    n.FloorDiv: lambda a, b: a // b,
    n.FloorMod: lambda a, b: a % b,
    n.Div: ops.trunc_div_int,
    n.Mod: lambda a, b: a - ops.trunc_div_int(a, b) * b,
    n.Min: min,
    n.Max: max,
    n.LT: lambda a, b: a < b,
    n.LE: lambda a, b: a <= b,
    n.GT: lambda a, b: a > b,
    n.GE: lambda a, b: a >= b,
    n.EQ: lambda a, b: a == b,
    n.NE: lambda a, b: a != b,
    n.And: lambda a, b: a and b,
    n.Or: lambda a, b: a or b,
}


def evaluate(expr: PrimExpr, env: dict[n.Var, int]) -> int:
    """The value of a scalar integer expression. Raises ZeroDivisionError."""
    match expr:
        case n.Var():
            return env[expr]
        case n.IntImm():
            return expr.value
        case n.Not(a):
            return not evaluate(a, env)
        case n.Select(c, t, f):
            return evaluate(t, env) if evaluate(c, env) else evaluate(f, env)
        case n.Cast(_, value):
            return int(evaluate(value, env))
    assert isinstance(expr, n.BinaryOp), expr
    return _FOLD[type(expr)](evaluate(expr.a, env), evaluate(expr.b, env))


@dataclass(frozen=True)
class Case:
    expr: PrimExpr
    domains: tuple[tuple[int, int], ...]  # (min, extent) of x, y, z

    def analyzer(self) -> Analyzer:
        analyzer = Analyzer()
        for var, (low, extent) in zip(VARS, self.domains):
            analyzer.bind(var, Range(ops.const(low), ops.const(extent)))
        return analyzer

    def points(self):
        for values in itertools.product(*(range(low, low + extent) for low, extent in self.domains)):
            yield dict(zip(VARS, values))


CONSTANTS = st.sampled_from([-12, -7, -4, -3, -1, 0, 1, 2, 3, 4, 6, 7, 8, 12, 16, 24])
FACTORS = st.sampled_from([-8, -6, -4, -3, -2, -1, 2, 3, 4, 6, 8, 12])
DIVISORS = st.sampled_from([-4, -3, 1, 2, 3, 4, 6, 8, 12, 24])


def raw(kind, a, b):
    return kind(a, b)


def _grow(children):
    return st.one_of(
        st.builds(raw, st.sampled_from([n.Add, n.Sub, n.Add]), children, children),
        st.builds(lambda a, c: n.Mul(a, ops.const(c)), children, FACTORS),
        st.builds(
            lambda kind, a, c: kind(a, ops.const(c)),
            st.sampled_from([n.FloorDiv, n.FloorMod, n.FloorDiv, n.FloorMod, n.Div, n.Mod]),
            children,
            DIVISORS,
        ),
        st.builds(raw, st.sampled_from([n.Min, n.Max]), children, children),
        st.builds(raw, st.sampled_from([n.Mul, n.FloorDiv, n.FloorMod, n.Div, n.Mod]), children, children),
        st.builds(lambda k, a, b, c, d: n.Select(k(a, b), c, d), COMPARE, children, children, children, children),
    )


COMPARE = st.sampled_from([n.LT, n.LE, n.GT, n.GE, n.EQ, n.NE])
LEAVES = st.one_of(st.sampled_from(VARS), st.builds(ops.const, CONSTANTS))
INTEGERS = st.recursive(LEAVES, _grow, max_leaves=9)
ORDERS = st.builds(raw, COMPARE, INTEGERS, INTEGERS)
CONDITIONS = st.recursive(
    ORDERS, lambda c: st.one_of(st.builds(raw, st.sampled_from([n.And, n.Or]), c, c), st.builds(n.Not, c)), max_leaves=4
)
DOMAINS = st.tuples(*[st.tuples(st.integers(-9, 9), st.integers(1, 9))] * 3)
INDEX_CASES = st.builds(Case, INTEGERS, DOMAINS)
CONDITION_CASES = st.builds(Case, CONDITIONS, DOMAINS)


def simplified(case: Case, analyzer: Analyzer) -> PrimExpr:
    try:
        return analyzer.simplify(case.expr)
    except Exception as error:
        assume("zero" not in str(error))
        raise


def agree(case: Case, expected: PrimExpr, found: PrimExpr) -> None:
    for point in case.points():
        try:
            want = evaluate(expected, point)
        except ZeroDivisionError:
            continue
        assert evaluate(found, point) == want, (point, found)


@RELAXED
@given(INDEX_CASES)
@example(Case((X * 6 + Y) // 6, ((0, 9), (0, 6), (0, 1))))
@example(Case(X - X // 4 * 4, ((-9, 9), (0, 1), (0, 1))))
def test_simplify_keeps_the_value(case):
    analyzer = case.analyzer()
    result = simplified(case, analyzer)
    agree(case, case.expr, result)
    assert analyzer.simplify(result) is result


@RELAXED
@given(CONDITION_CASES)
def test_simplify_keeps_the_truth(case):
    agree(case, case.expr, simplified(case, case.analyzer()))


@RELAXED
@given(INDEX_CASES)
def test_bounds_hold_every_value(case):
    analyzer = case.analyzer()
    simplified(case, analyzer)
    lo, hi = analyzer.const_int_bound(case.expr)
    step, base = analyzer.modular_set(case.expr)
    for point in case.points():
        try:
            value = evaluate(case.expr, point)
        except ZeroDivisionError:
            continue
        assert lo is None or lo <= value
        assert hi is None or value <= hi
        assert value == base if step == 0 else (value - base) % step == 0


@RELAXED
@given(CONDITION_CASES, CONDITIONS)
def test_nothing_false_is_proven_under_a_constraint(case, constraint):
    analyzer = case.analyzer()
    try:
        with analyzer.constraint(constraint):
            proven = analyzer.can_prove(case.expr)
            result = analyzer.simplify(case.expr)
    except Exception as error:
        assume("zero" not in str(error))
        raise
    for point in case.points():
        try:
            if not evaluate(constraint, point):
                continue
            want = evaluate(case.expr, point)
        except ZeroDivisionError:
            continue
        assert want or not proven
        assert evaluate(result, point) == want


@RELAXED
@given(INDEX_CASES, st.integers(0, 7))
def test_int_set_holds_every_value(case, which):
    analyzer = case.analyzer()
    simplified(case, analyzer)
    domains = {var: dom for bit, (var, dom) in enumerate(zip(VARS, case.domains)) if which >> bit & 1}
    found = analyzer.int_set(case.expr, domains)
    if found is None:
        return
    for point in case.points():
        try:
            value = evaluate(case.expr, point)
            low, high = (evaluate(end, point) for end in found)
        except ZeroDivisionError:
            continue
        assert low <= value <= high


# ------------------------------------------------------------------- symbolic sizes and ranges

SIZE = n.SizeVar("n")
SYMBOLIC_LEAVES = st.one_of(st.sampled_from((X, Y, SIZE)), st.builds(ops.const, CONSTANTS))
PRODUCTS = st.one_of(st.builds(raw, st.just(n.Mul), st.sampled_from((X, Y)), st.just(SIZE)), SYMBOLIC_LEAVES)


def _grow_symbolic(children):
    return st.one_of(
        st.builds(raw, st.sampled_from([n.Add, n.Sub, n.Min, n.Max]), children, children),
        st.builds(raw, st.sampled_from([n.FloorDiv, n.FloorMod]), children, st.just(SIZE)),
        st.builds(
            lambda kind, a, c: kind(a, ops.const(c)),
            st.sampled_from([n.FloorDiv, n.FloorMod, n.Mul]),
            children,
            st.sampled_from([2, 3, 4, 8]),
        ),
    )


SYMBOLIC = st.recursive(PRODUCTS, _grow_symbolic, max_leaves=7)


@RELAXED
@given(SYMBOLIC, SYMBOLIC, COMPARE, st.sampled_from([2, 3, 4]))
@example((X * SIZE + Y) // SIZE, X, n.LE, 4)
@example(X * 4 + Y, SIZE, n.LT, 4)
@example((SIZE + 3) // 4 * 4, SIZE, n.GE, 4)
def test_symbolic_ranges(left, right, compare, tile):
    """x < ceildiv(n, tile) and y < min(n, n - x): nothing false proven, values kept."""
    analyzer = Analyzer()
    analyzer.bind(SIZE, Range(ops.const(1), ops.const(11)))
    blocks = ops.ceildiv(SIZE, tile)
    analyzer.bind(X, Range.from_extent(blocks))
    inner = ops.minimum(tile, SIZE - X * tile)
    analyzer.bind(Y, Range.from_extent(inner))
    condition = compare(left, right)
    proven = analyzer.can_prove(condition)
    result, simple = analyzer.simplify(condition), analyzer.simplify(left)
    ends = analyzer.int_set(left, {Y: (0, inner)})
    both = analyzer.int_set(left, {X: (0, blocks), Y: (0, inner)})
    for size in range(1, 12):
        for x in range(-(-size // tile)):
            for y in range(min(tile, size - x * tile)):
                point = {SIZE: size, X: x, Y: y}
                want = evaluate(condition, point)
                assert want or not proven
                assert evaluate(result, point) == want
                value = evaluate(left, point)
                assert evaluate(simple, point) == value
                for found in (ends, both):
                    assert found is None or evaluate(found[0], point) <= value <= evaluate(found[1], point)
