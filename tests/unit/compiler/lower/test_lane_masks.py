"""Masks by lanes: those that are on, and the conditions that all lanes share."""

from hypothesis import given
from hypothesis import strategies as st

from compiler.lower.analysis.lane_masks import LaneMask, lane_mask
from compiler.tir import nodes as n
from compiler.tir import ops

LANES = 8
row = n.Var("row", "int32")


def ramp(base: int, stride: int) -> n.Ramp:
    return n.Ramp(ops.const(base), ops.const(stride), LANES)


def all_lanes(number: int) -> n.Broadcast:
    return n.Broadcast(ops.const(number), LANES)


comparisons = st.tuples(
    st.sampled_from([n.LT, n.LE, n.GT, n.GE]), st.integers(-9, 9), st.integers(-3, 3), st.integers(-30, 30),
    st.booleans(),
)  # fmt: skip
OF = {n.LT: int.__lt__, n.LE: int.__le__, n.GT: int.__gt__, n.GE: int.__ge__}


@given(st.lists(comparisons, min_size=1, max_size=4), st.booleans())
def test_lanes_are_those_that_python_finds(drawn, shared):
    predicate, wanted = None, [True] * LANES
    for kind, base, stride, bound, turned in drawn:
        pair = (all_lanes(bound), ramp(base, stride)) if turned else (ramp(base, stride), all_lanes(bound))
        for lane in range(LANES):
            value = base + lane * stride
            wanted[lane] &= OF[kind](bound, value) if turned else OF[kind](value, bound)
        predicate = kind(*pair) if predicate is None else n.And(predicate, kind(*pair))
    condition = n.LT(row, ops.const(7))
    if shared:
        predicate = n.And(n.Broadcast(condition, LANES), predicate)
    assert lane_mask(predicate) == LaneMask(tuple(wanted), (condition,) if shared else ())


def test_lanes_that_differ_by_what_is_not_known_are_no_mask():
    assert lane_mask(n.LT(n.Ramp(row, ops.const(1), LANES), all_lanes(5))) is None
    assert lane_mask(None) is None
    mask = lane_mask(n.LT(n.Ramp(row, ops.const(1), LANES), all_lanes(5)), lambda number: ops.as_int(number) or 2)
    assert mask == LaneMask((True, True, True, False, False, False, False, False))


def test_spans():
    assert LaneMask((True, True, False)).first_lanes == 2
    assert LaneMask((True, True, False), (row,)).first_lanes is None
    assert LaneMask((False, True, True, False)).first_lanes is None
    assert LaneMask((False, True, True, False)).span == range(1, 3)
    assert LaneMask((True, False, True)).span is None
    assert LaneMask((False, False)).span is None
