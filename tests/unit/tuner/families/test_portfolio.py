"""Portfolios are the best there are; rules pick what is valid; families that make no sense are refused."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.errors import ArtifactError
from compiler.size_rule import SizeRule, SizeTest, leaves_of
from tuner.errors import WorkloadError
from tuner.families.family import Family, FamilySpec
from tuner.families.portfolio import TimeTable, choose_portfolio
from tuner.families.rule import GENERAL, explain, make_dispatch, rule_lines
from tuner.families.sizes import FamilyError, SizeList, parse_shapes, parse_traffic


@st.composite
def timings(draw: st.DrawFn) -> tuple[TimeTable, list[float]]:
    configs, sizes = draw(st.integers(1, 7)), draw(st.integers(1, 6))
    cell = st.one_of(st.floats(0.1, 10.0), st.sampled_from([math.nan, math.nan, math.inf]))
    rows = draw(st.lists(st.lists(cell, min_size=sizes, max_size=sizes), min_size=configs, max_size=configs))
    weights = draw(st.lists(st.floats(0.1, 5.0), min_size=sizes, max_size=sizes))
    return TimeTable(np.array(rows)), weights


def loss_of(times: TimeTable, weights: list[float], members: tuple[int, ...]) -> float:
    total = lost = 0.0
    for size, weight in enumerate(weights):
        if math.isnan(times.best[size]):
            continue
        own = [times.seconds[m, size] for m in members if not math.isnan(times.seconds[m, size])]
        lost += weight * math.log(min(own) / times.best[size] if own else 1e6)
        total += weight
    return math.exp(lost / total) if total else 1.0


@settings(max_examples=30, deadline=None)
@given(timings(), st.integers(1, 4))
def test_portfolio_is_the_best_of_all_sets(case: tuple[TimeTable, list[float]], most: int) -> None:
    times, weights = case
    able = [c for c in range(len(times.seconds)) if times.sound[c] and not np.isnan(times.seconds[c]).all()]
    if not able:
        with pytest.raises(FamilyError):
            choose_portfolio(times, weights, most)
        return
    found = choose_portfolio(times, weights, most)
    sets = [s for k in range(1, most + 1) for s in itertools.combinations(able, min(k, len(able)))]
    best = min(loss_of(times, weights, s) for s in sets)
    assert found.exact
    assert found.loss == pytest.approx(best, rel=1e-9)
    assert len(found.members) <= most
    assert set(found.members) <= set(able), "a config that failed at one size is out"
    fewer = choose_portfolio(times, weights, most + 1)
    assert fewer.loss <= found.loss * (1 + 1e-9)
    greedy = choose_portfolio(times, weights, most, most_nodes=0)
    assert greedy.loss >= found.loss * (1 - 1e-9)


@settings(max_examples=30, deadline=None)
@given(timings(), st.integers(1, 3), st.integers(1, 5000))
def test_rule_picks_only_what_is_valid(case: tuple[TimeTable, list[float]], most: int, asked: int) -> None:
    times, weights = case
    if not (times.sound & ~np.isnan(times.seconds).all(axis=1)).any():
        return
    sizes = SizeList(("M",), tuple((7 * at * at + 1,) for at in range(len(weights))), tuple(weights))
    portfolio = choose_portfolio(times, sizes.weights, most)
    dispatch = make_dispatch(sizes, times, portfolio)
    for at, size in enumerate(sizes.sizes):
        pick = dispatch.rule.pick(size)
        if portfolio.picks[at] is None:
            assert pick == GENERAL
        else:
            assert portfolio.members[pick] == portfolio.picks[at]
            assert np.isfinite(times.seconds[portfolio.members[pick], at])
    said = explain(dispatch, (asked,), [str(m) for m in portfolio.members])
    assert said.pick == dispatch.rule.pick((asked,)) in range(GENERAL, len(portfolio.members))
    assert SizeRule.from_json(dispatch.rule.to_json()) == dispatch.rule


@given(st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=20))
def test_shares_read_again_are_the_same(weights: list[float]) -> None:
    sizes = SizeList(("M",), tuple((at + 1,) for at in range(len(weights))), tuple(weights))
    assert sum(sizes.weights) == pytest.approx(1.0)
    assert SizeList.from_json(json.loads(json.dumps(sizes.to_json()))) == sizes


def test_rule_finds_intervals_and_tails() -> None:
    sizes = SizeList(("M",), tuple((m,) for m in (1, 2, 3, 4, 6, 8, 100, 200, 300, 400, 500)))
    by_size = np.array(
        [[1.0 if m < 10 else 2.0 for (m,) in sizes.sizes], [1.5 if m < 10 else 1.0 for (m,) in sizes.sizes]]
    )
    times = TimeTable(by_size)
    dispatch = make_dispatch(sizes, times, choose_portfolio(times, sizes.weights, 2))
    assert [dispatch.rule.pick((m,)) for m in (5, 20, 60, 1000)] == [0, 0, 1, 1]
    assert dispatch.held_out < 1.1
    [(low, first), (high, second)] = rule_lines(dispatch.rule, "ab")
    assert (low.replace("<=", ">"), first, second) == (high, "a", "b")
    nested = SizeRule(("M",), {}, SizeTest("M", 90, SizeTest("M", 4, 0, 1), 0))
    assert [test for test, _ in rule_lines(nested, "ab")] == ["M <= 4", "M <= 90 and M > 4", "M > 90"]
    assert rule_lines(SizeRule(("M",), {}, GENERAL), "ab") == (("any", "the general kernel"),)
    assert explain(dispatch, (6,), "ab").sure == "measured"
    assert explain(dispatch, (7,), "ab").sure == "near"
    assert explain(dispatch, (1 << 20,), "ab").sure == "unknown"
    with pytest.raises(FamilyError, match="whole numbers"):
        explain(dispatch, ("7",), "ab")
    assert [SizeList(("M",), ((1,), (2,)), (996.0, 4.0)).share_text(at) for at in (0, 1)] == ["100 %", "0.4 %"]
    often = dataclasses.replace(sizes, weights=(1000.0, *[1.0] * (len(sizes.sizes) - 1)))
    seldom = make_dispatch(often, times, choose_portfolio(times, often.weights, 2)).rule
    assert seldom == dispatch.rule, "calls of a measured size, however many, do not come to the tree"
    sizes = SizeList(("M",), tuple((m,) for m in range(20, 52)))
    tails = np.array([[1.0 if m % 8 == 0 else 2.0 for (m,) in sizes.sizes], [1.2] * len(sizes.sizes)])
    times = TimeTable(tails)
    dispatch = make_dispatch(sizes, times, choose_portfolio(times, sizes.weights, 2))
    assert [dispatch.rule.pick((m,)) for m in (64, 65)] == [0, 1]
    assert len(leaves_of(dispatch.rule.tree)) == 2
    sizes = SizeList(("M",), tuple((m,) for m in (1, 2, 16, 17, 64, 128)))
    times = TimeTable(np.array([[2.0, 2.0, 1.0, 1.0, 2.0, 2.0], [1.0, 1.0, 2.0, 2.0, 1.0, 1.0]]))
    rule = make_dispatch(sizes, times, choose_portfolio(times, sizes.weights, 2)).rule
    assert "%" not in str(rule.to_json()["tree"]), "two sizes tell nothing of tails"


def test_families_read_and_build() -> None:
    spec = FamilySpec.parse("dense:M,16,8")
    family = Family(spec, parse_shapes(["M=1,4,16"]))
    assert [task.name for task in family.tasks("llvm")] == [f"dense:{m},16,8:float32" for m in (1, 4, 16)]
    assert FamilySpec.from_json(spec.to_json()) == spec
    assert FamilySpec.is_family("dense:M,16,8")
    assert not FamilySpec.is_family("dense:1,16,8")
    assert len(spec.general().params) == 3
    both = parse_shapes(["N=1,2", "H,W=7x5,14x10"])
    assert both.sizes == ((1, 7, 5), (1, 14, 10), (2, 7, 5), (2, 14, 10))
    assert SizeList.from_json(both.to_json()) == both
    traffic = parse_traffic("M, count\n1, 30\n4,10\n4,5\n", ("M",))
    assert family.sizes.with_traffic(traffic).weights == pytest.approx((30 / 46, 15 / 46, 1 / 46))
    shares = family.sizes.with_traffic({(1,): 0.6, (4,): 0.3, (16,): 0.1}).weights
    assert shares == pytest.approx((0.6, 0.3, 0.1))
    rare = family.sizes.with_traffic({(1,): 0.75, (4,): 0.25}).weights
    assert rare == pytest.approx((0.75 / 1.01, 0.25 / 1.01, 0.01 / 1.01))


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["M=1,16", "M=32"], "M is given sizes twice"),
        (["M=1,1"], "M=1 is there twice"),
        (["M=0"], "at least 1"),
        (["M=2147483648"], "at most 2147483647"),
        (["M=1,x"], "no whole number"),
        (["H,W=1x2,3"], "has 1 numbers for 2 symbols"),
        (["16,32"], "does not say which symbol"),
        (["max=1"], "cannot be called 'max'"),
        (["µ=1"], "cannot be called 'µ'"),
        ([], "needs a symbol"),
    ],
)
def test_bad_sizes_are_refused(texts: list[str], message: str) -> None:
    with pytest.raises(FamilyError, match=message):
        parse_shapes(texts)


def test_bad_families_are_refused() -> None:
    spec = FamilySpec.parse("dense:M,16,8")
    with pytest.raises(FamilyError, match="has no sizes for M"):
        Family(spec, parse_shapes(["N=1"]))
    with pytest.raises(FamilyError, match="sizes for N, which"):
        Family(spec, parse_shapes(["M=1", "N=1"]))
    with pytest.raises(FamilyError, match="not possible at H=1"):
        Family(FamilySpec.parse("conv2d:1,4,H,H,4,5,5"), parse_shapes(["H=8,1"]))
    with pytest.raises(FamilyError, match="traffic for M=3"):
        parse_shapes(["M=1,2"]).with_traffic({(3,): 1.0})
    with pytest.raises(FamilyError, match="no call of any size"):
        parse_shapes(["M=1,2"]).with_traffic({(1,): 0.0})
    with pytest.raises(FamilyError, match="columns"):
        parse_traffic("N,count\n1,1\n", ("M",))
    with pytest.raises(FamilyError, match="line 2 has more than 2 columns"):
        parse_traffic("M,count\n1,1,5\n", ("M",))
    with pytest.raises(FamilyError, match="line 3"):
        parse_traffic("M,count\n1,1\nx,1\n", ("M",))
    with pytest.raises(FamilyError, match="at least 1 config"):
        choose_portfolio(TimeTable(np.ones((1, 1))), [1.0], 0)
    with pytest.raises(FamilyError, match="no symbol"):
        FamilySpec.parse("dense:1,16,8")
    with pytest.raises(WorkloadError):
        FamilySpec.parse("nothing:M,1")
    with pytest.raises(FamilyError, match="cannot be called 'class'"):
        FamilySpec.parse("dense:class,16,8")
    with pytest.raises(FamilyError, match="the stride of conv2d cannot vary"):
        FamilySpec.parse("conv2d:1,8,H,H,8,3,3,S")
    with pytest.raises(FamilyError, match="neither a size nor a name"):
        FamilySpec.parse(f"dense:M,{'9' * 5000},8")
    with pytest.raises(ArtifactError, match="tests K"):
        SizeRule(("M",), {}, SizeTest("K", 1, 0, 1))
    with pytest.raises(ArtifactError, match="no tree"):
        SizeRule.from_json({"symbols": ["M"], "known": [], "tree": {"value": "M"}})
