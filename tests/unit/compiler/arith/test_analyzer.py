"""The normal form of index expressions, what is proven about them, and the ranges they take."""

from __future__ import annotations

import pytest

from compiler.arith.affine import as_affine
from compiler.arith.analyzer import Analyzer, simplify
from compiler.errors import IRError
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.nodes import Range
from compiler.tir.ops import ceildiv, maximum, minimum

IO, II = n.Var("io"), n.Var("ii")  # a loop of 86 around one of 6: a split that does not divide 512
FUSED = n.Var("f")  # four fused loops, 3 * 5 * 7 * 11
SIZE, COLS = n.SizeVar("n"), n.SizeVar("m")
BLOCK, LANE = n.Var("block"), n.Var("lane")  # lane < min(32, n - block*32): a symbolic tile with its tail
ROW, COL = n.Var("row"), n.Var("col")  # row < n, col < m
AREA = n.Var("area")  # < n * m
W = n.Var("w")  # anything


@pytest.fixture
def analyzer():
    known = Analyzer()
    known.bind(IO, Range.from_extent(86))
    known.bind(II, Range.from_extent(6))
    known.bind(FUSED, Range.from_extent(3 * 5 * 7 * 11))
    known.bind(BLOCK, Range.from_extent(ceildiv(SIZE, 32)))
    known.bind(LANE, Range.from_extent(minimum(32, SIZE - BLOCK * 32)))
    known.bind(ROW, Range.from_extent(SIZE))
    known.bind(COL, (0, COLS))
    known.bind(AREA, Range.from_extent(SIZE * COLS))
    return known


INDEX = IO * 6 + II
TRUE, FALSE = "T.bool(True)", "T.bool(False)"


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        # sums
        (II + IO * 6, "io * 6 + ii"),
        (W + W + IO - W, "io + w"),
        (3 - W + 2, "5 - w"),
        (W - 3 - W, "-3"),
        (ops.neg(W) * 2, "w * -2"),
        ((W + 1) * (W + 1) - W * W, "w * 2 + 1"),
        (W * 0 + 3, "3"),
        # splitting and fusing
        (INDEX // 6, "io"),
        (INDEX % 6, "ii"),
        ((INDEX + 6) // 6, "io + 1"),
        ((INDEX - 6) // 6, "io - 1"),
        (INDEX // 2, "io * 3 + ii // 2"),
        (INDEX // 3 % 2, "ii // 3"),
        (INDEX // 6 * 6 + INDEX % 6, "io * 6 + ii"),
        (FUSED // 77 * 77 + FUSED // 11 % 7 * 11 + FUSED % 11, "f"),
        (FUSED // 11 % 7, "f % 77 // 11"),
        (FUSED % 1155, "f"),
        (FUSED // 1155, "0"),
        (FUSED % 385 // 11 // 7, "f % 385 // 77"),
        (W // 4 // 2, "w // 8"),
        (W % 8 % 4, "w % 4"),
        ((W * 8 + 3) // 4, "w * 2"),
        ((W * 8 + 3) % 4, "3"),
        (W * 6 // (n.IntImm("int32", 6)), "w"),
        (n.FloorDiv(W * 6, n.Mul(ops.const(2), ops.const(3))), "w"),
        (W - W // 4 * 4, "w % 4"),
        (W - W % 4, "w // 4 * 4"),
        (W % 8 - W % 4, "w % 8 // 4 * 4"),
        (W // -4, "w * -1 // 4"),
        (ops.truncdiv(W * 4, 4), "w"),
        (ops.truncdiv(II + 6, 6), "1"),
        (ops.truncmod(INDEX, 6), "ii"),
        (W << 3, "w * 8"),
        (W >> 2, "w // 4"),
        # symbolic sizes
        ((ROW * COLS + COL) // COLS, "row"),
        ((ROW * COLS + COL) % COLS, "col"),
        ((ROW * COLS + COL) // COLS * COLS + (ROW * COLS + COL) % COLS, "m * row + col"),
        (AREA // COLS * COLS + AREA % COLS, "area"),
        (AREA - AREA // COLS * COLS, "area % m"),
        (SIZE * 4 // SIZE, "4"),
        # minimum and maximum
        (minimum(IO * 6 + 6, 512) - IO * 6, "T.min(512 - io * 6, 6)"),
        (minimum(6, 512 - IO * 6) + IO * 6, "T.min(io * 6 + 6, 512)"),
        (maximum(II - 6, 0), "0"),
        (minimum(minimum(W, 3), 5), "T.min(w, 3)"),
        (minimum(W + COL, W + 3), "T.min(col, 3) + w"),
        (minimum(LANE, 32), "lane"),
        # choices
        (intrin.select(II < 9, W, IO), "w"),
        (intrin.if_then_else(W < 3, IO + II, II + IO), "ii + io"),
        (ops.cast("int32", II < 6), "1"),
        (n.Let(W, ops.const(3), W + IO), "io + 3"),
    ],
)
def test_normal_form(analyzer, expr, text):
    result = analyzer.simplify(expr)
    assert str(result) == text
    assert analyzer.simplify(result) is result


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (INDEX < 516, TRUE),
        (INDEX < 512, "io * 6 + ii < 512"),
        (INDEX < 510, "io < 85"),
        (INDEX >= 0, TRUE),
        (n.EQ(INDEX, ops.const(-1)), FALSE),
        (n.EQ(W * 4, ops.const(6)), FALSE),
        (n.NE(W * 4 + 2, ops.const(0)), TRUE),
        (n.EQ(W * 2, IO * 2 + 4), "io + 2 == w"),
        (W * 2 < 7, "w < 4"),
        (W > 3, "4 <= w"),
        (W >= IO, "io <= w"),
        (W + 1 > IO - 2, "io < w + 3"),
        (ops.logical_not(W < 3), "3 <= w"),
        (ops.logical_not(ops.logical_and(W < 3, n.EQ(W, IO))), "3 <= w or io != w"),
        (ops.logical_and(W < 3, W < 5, W >= 0, W > -4), "w < 3 and 0 <= w"),
        (ops.logical_or(W < 3, W < 5), "w < 5"),
        (ops.logical_or(W < 3, W >= 3), TRUE),
        (ops.logical_and(W < 3, W >= 3), FALSE),
        (ops.logical_and(II < 6, W < 3), "w < 3"),
        (intrin.likely(INDEX < 516), TRUE),
        (AREA < SIZE * COLS, TRUE),
        (n.LT(n.Var("x", "float32"), ops.const(1.0)), "x < 1.0"),
    ],
)
def test_conditions(analyzer, expr, text):
    assert str(analyzer.simplify(expr)) == text


@pytest.mark.parametrize(
    "fact",
    [
        BLOCK * 32 + LANE < SIZE,
        LANE < 32,
        ceildiv(SIZE, 32) > BLOCK,
        ceildiv(SIZE, 32) * 32 >= SIZE,
        (SIZE + 31) // 32 * 32 < SIZE + 32,
        ROW * COLS + COL < SIZE * COLS,
        AREA // COLS < SIZE,
        AREA % COLS < COLS,
        minimum(SIZE, 32) <= SIZE,
        maximum(W, IO) >= W,
        minimum(W, IO) + maximum(W, IO) <= maximum(W, IO) + IO,
    ],
)
def test_proven(analyzer, fact):
    assert analyzer.can_prove(fact)
    assert not analyzer.can_prove(ops.logical_not(fact))


@pytest.mark.parametrize("claim", [BLOCK * 32 + 31 < SIZE, ROW < COLS, W < 3, INDEX < 515, AREA < SIZE])
def test_not_proven(analyzer, claim):
    assert not analyzer.can_prove(claim)


def test_can_prove_equal(analyzer):
    assert analyzer.can_prove_equal((IO + 1) * 6 + II, INDEX + 6)
    assert analyzer.can_prove_equal(II // 6, 0)
    assert not analyzer.can_prove_equal(IO, II)
    x = n.Var("x", "float32")
    assert analyzer.can_prove_equal(x * 2.0, x * 2.0)
    assert not analyzer.can_prove_equal(x * 2.0, x * 3.0)


def test_bounds(analyzer):
    assert analyzer.const_int_bound(INDEX) == (0, 515)
    assert analyzer.const_int_bound(II - IO * 2) == (-170, 5)
    assert analyzer.const_int_bound(W % 8 // 2) == (0, 3)
    assert analyzer.const_int_bound(W) == (None, None)
    assert analyzer.const_int_bound(SIZE + 1) == (1, None)
    assert analyzer.const_int_bound(minimum(W, 4)) == (None, 4)
    assert analyzer.const_int_bound(II < 6) == (1, 1)
    assert analyzer.const_int_bound(W < 6) == (0, 1)
    with pytest.raises(IRError, match="int32 or int64"):
        analyzer.const_int_bound(ops.const(1.5))


def test_modular_set(analyzer):
    assert analyzer.modular_set(IO * 12 + II * 8 + 6) == (4, 2)
    assert analyzer.modular_set(ops.const(7)) == (0, 7)
    assert analyzer.modular_set((W * 4 + 1) % 8 + IO * 8) == (4, 1)


def test_loops_of_one_iteration():
    i = n.Var("i")
    replaced, kept = Analyzer(), Analyzer(keep_unit_vars=True)
    for known in (replaced, kept):
        known.bind(i, Range(ops.const(3), ops.const(1)))
    assert str(replaced.simplify(i * 2 + W)) == "w + 6"
    assert str(kept.simplify(i * 2 + W)) == "i * 2 + w"
    assert kept.can_prove(i * 2 < 7)
    assert kept.const_int_bound(i) == (3, 3)


def test_binding_a_value_and_binding_again():
    known = Analyzer()
    known.bind(W, IO * 4)
    assert str(known.simplify(W // 4)) == "io"
    known.bind(W, Range.from_extent(4))
    assert str(known.simplify(W // 4)) == "0"
    known.bind(n.IterVar(None, W), (0, 8))
    assert str(known.simplify(W // 4)) == "w // 4"


def test_constraints_hold_within_their_block_only(analyzer):
    tail = INDEX < 512
    assert not analyzer.can_prove(INDEX <= 511)
    with analyzer.constraint(ops.logical_and(tail, W >= 2)):
        assert analyzer.can_prove(INDEX <= 511)
        assert analyzer.can_prove(W > 0)
        assert str(analyzer.simplify(maximum(W, 1))) == "w"
        with analyzer.constraint(n.EQ(W, ops.const(5))):
            assert str(analyzer.simplify(W + IO)) == "io + 5"
    assert not analyzer.can_prove(W > 0)
    assert not analyzer.can_prove(INDEX <= 511)


# -------------------------------------------------------------------------------------- ranges


@pytest.mark.parametrize(
    ("expr", "domains", "ends"),
    [
        (INDEX, {II: (0, 6)}, ("io * 6", "io * 6 + 5")),
        ((IO * 2 + II) * 3, {II: (0, 6)}, ("io * 6", "io * 6 + 15")),
        (IO * 2 - II, {II: (1, 3)}, ("io * 2 - 3", "io * 2 - 1")),
        ((W * 7 + II) % 14, {II: (0, 6)}, ("w % 2 * 7", "w % 2 * 7 + 5")),
        ((W * 28 + FUSED) // 14, {FUSED: (0, 28)}, ("w * 2", "w * 2 + 1")),
        ((W * 28 + FUSED) % 14, {FUSED: (0, 28)}, ("0", "13")),
        (minimum(W + II, 10), {II: (0, 6)}, ("T.min(w, 10)", "T.min(w + 5, 10)")),
        (BLOCK * 32 + LANE, {LANE: (0, minimum(32, SIZE - BLOCK * 32))},
         ("block * 32", "T.min(block * 32 + 32, n) - 1")),
        (ROW * COLS + COL, {COL: (0, COLS)}, ("m * row", "m * row + m - 1")),
        (ROW * COLS + COL, {ROW: (0, SIZE), COL: (0, COLS)}, ("0", "m * n - 1")),
        (W + 1, {II: (0, 6)}, ("w + 1", "w + 1")),
    ],
)  # fmt: skip
def test_int_set(analyzer, expr, domains, ends):
    assert ends_of(analyzer, expr, domains) == ends


def ends_of(known, expr, domains):
    found = known.int_set(expr, domains)
    assert found is not None
    return tuple(map(str, found))


def test_int_set_of_an_unknown_index():
    table = n.decl_buffer((8,), "int32", "table")
    assert Analyzer().int_set(table[II], {II: (0, 6)}) is None
    assert Analyzer().int_set(table[IO] + II, {II: (0, 6)}) is not None


def test_int_set_relaxes_variables_that_depend_on_each_other():
    known = Analyzer()
    assert ends_of(known, II, {II: (0, IO), IO: (0, 4)}) == ("0", "2")
    with pytest.raises(IRError, match="circle"):
        known.int_set(INDEX, {II: (0, IO), IO: (0, II)})
    assert ends_of(known, INDEX, {II: (0, minimum(6, 20 - IO * 6)), IO: (0, 4)}) == ("0", "19")


# -------------------------------------------------------------------------------------- vectors


def ramp(base, stride=1, lanes=8):
    return n.Ramp(ops.as_expr(base), ops.const(stride), lanes)


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (n.Add(ramp(IO * 8), n.Broadcast(W, 8)), "T.Ramp(io * 8 + w, 1, 8)"),
        (n.Mul(ramp(0), n.Broadcast(ops.const(4), 8)), "T.Ramp(0, 4, 8)"),
        (n.FloorDiv(ramp(IO * 8), n.Broadcast(ops.const(8), 8)), "T.Broadcast(io, 8)"),
        (n.FloorMod(ramp(IO * 8), n.Broadcast(ops.const(8), 8)), "T.Ramp(0, 1, 8)"),
        (n.LT(ramp(IO * 8), n.Broadcast(ops.const(688), 8)), "T.Broadcast(T.bool(True), 8)"),
        (n.LT(ramp(W * 8), n.Broadcast(ops.const(20), 8)), "T.Ramp(w * 8, 1, 8) < T.Broadcast(20, 8)"),
        (n.LT(ramp(W * 8), n.Broadcast(ops.const(16), 8)), "T.Broadcast(w < 2, 8)"),
    ],
)
def test_vectors(analyzer, expr, text):
    assert str(analyzer.simplify(expr)) == text


# ------------------------------------------------------------------------------------- the rest


def test_data_is_left_alone():
    a = n.decl_buffer((8,), "uint8", "a")
    x = n.Var("x", "float32")
    assert str(simplify(a[W + 1 - 1] + a[W] - a[W])) == "a[w] + a[w] - a[w]"
    assert str(simplify(x * 2.0 - x * 2.0)) == "x * 2.0 - x * 2.0"


def test_an_expression_in_normal_form_is_returned_as_it_is():
    for expr in (INDEX + 3, minimum(W, 3) * 4 - IO, INDEX < 512, n.decl_buffer((8,), name="A")[INDEX]):
        assert simplify(expr) is expr


def test_wider_integers_keep_their_dtype():
    w = n.Var("w", "int64")
    result = simplify(w * 4 // 2 + 1 - 1)
    assert result.dtype == "int64"
    assert str(result) == "w * T.int64(2)"


def test_division_by_zero_is_an_error():
    for kind in (n.FloorDiv, n.FloorMod, n.Div):
        with pytest.raises(IRError, match="zero"):
            simplify(kind(W, ops.const(0)))


def test_as_affine():
    coefficients, rest = as_affine(IO * 6 + II + W * 3 + 4, [II, IO])
    assert coefficients == (1, 6)
    assert str(rest) == "w * 3 + 4"
    assert as_affine(IO * II, [II]) is None
    assert as_affine(INDEX // 4, [II]) is None
    assert as_affine(n.Var("x", "float32"), [II]) is None
    coefficients, rest = as_affine(II + 2, [II])
    assert ops.as_int(rest) == 2
