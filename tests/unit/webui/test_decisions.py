"""The choices of candidates, which of them mattered, and where the pictures' marks go."""

import json
import math

import numpy as np
import pytest

from compiler.schedule.core.schedule import Schedule
from tuner.workloads import WorkloadSpec
from webui.decisions import DecidedCandidate, choices_of, importance, rank_choices, rank_pairs
from webui.forecasts import Accuracy, Forecast, accuracy_of
from webui.pages.figures import Achieved, Ceiling, parallel_coordinates, roofline, scatter


def drawn(factors, unroll):
    sch = Schedule(WorkloadSpec("matmul", (64, 64, 64)).prim_func())
    block = sch.get_block("T_matmul")
    i, j, _k = sch.get_loops(block)
    sch.split(i, sch.sample_perfect_tile(i, 2, 16, decision=factors))
    sch.split(j, [None, 8])
    sch.annotate(block, "pragma_unroll", sch.sample_categorical([0, 16, 64], [0.3, 0.3, 0.4], decision=unroll))
    return sch.trace.to_json()


def test_choices_are_named_after_what_they_decide():
    assert choices_of(drawn([4, 16], 2)) == {
        "split T_matmul.0 [0]": 4,
        "split T_matmul.0 [1]": 16,
        "split T_matmul.1": 8,
        "annotate T_matmul pragma_unroll": 64,
    }


def test_the_same_step_twice_has_two_labels():
    sch = Schedule(WorkloadSpec("matmul", (64, 64, 64)).prim_func())
    i = sch.get_loops(sch.get_block("T_matmul"))[0]
    outer, inner = sch.split(i, [None, 8])
    sch.unroll(sch.split(inner, [None, 4])[1])
    sch.split(outer, [None, 2])
    labels = choices_of(sch.trace.to_json())
    assert labels == {"split T_matmul.0": 8, "split T_matmul.0.1": 4, "split T_matmul.0.0": 2}


def test_a_trace_of_another_version_has_no_choices():
    assert choices_of(json.dumps({"format": "tunefarm.trace", "version": 99, "steps": [], "decisions": []})) == {}
    assert choices_of("not JSON") == {}


def candidates(effect, count=400, seed=0):
    rng = np.random.default_rng(seed)
    made = []
    for at in range(count):
        tile, unroll = int(2 ** rng.integers(0, 6)), int(rng.choice([0, 16, 64]))
        cost = 1e-3 * math.exp(effect * abs(math.log2(tile / 8)) + 0.1 * rng.normal())
        made.append(DecidedCandidate(at + 1, cost, {"tile": tile, "unroll": unroll, "fixed": 1}))
    return made


def test_the_choice_that_makes_the_time_comes_first():
    first, second = rank_choices(candidates(0.5))
    assert (first.label, first.best, first.good[0]) == ("tile", 8, 8)
    assert first.values == (1, 2, 4, 8, 16, 32)
    assert first.importance > 0.9
    assert second.importance < 0.05


def test_choices_without_effect_explain_nothing():
    assert all(choice.importance < 0.05 for choice in rank_choices(candidates(0.0)))


def test_a_choice_with_a_value_for_each_candidate_does_not_explain_all():
    costs = np.random.default_rng(1).lognormal(size=300).tolist()
    assert importance(range(300), costs) < 0.05
    assert importance([0, 0, 0, 0], [1.0, 2.0, 3.0, 4.0]) == 0.0
    assert importance([0, 1], [1.0, 2.0]) == 0.0
    assert importance([0, 0, 1, 1], [1.0, 1.0, 1.0, 1.0]) == 0.0


def paired(effect, count=400, seed=0):
    """Two choices that matter only together, and one that does not matter."""
    rng = np.random.default_rng(seed)
    made = []
    for at in range(count):
        a, b, c = (int(value) for value in rng.integers(0, 4, 3))
        cost = 1e-3 * math.exp(effect * (a % 2 != b % 2) + 0.1 * rng.normal())
        made.append(DecidedCandidate(at + 1, cost, {"a": a, "b": b, "c": c}))
    return made


def test_choices_that_only_matter_together_are_found_as_a_pair():
    made = paired(1.0)
    ranked = rank_choices(made)
    assert all(choice.importance < 0.05 for choice in ranked)
    (pair,) = rank_pairs(made, ranked)
    assert {pair.first, pair.second} == {"a", "b"}
    assert pair.together >= pair.beyond > 0.9


def test_no_pair_is_told_where_choices_add_up_or_do_nothing_or_are_few():
    for made in (paired(0.0), paired(0.0, count=60), candidates(0.5), candidates(0.0)):
        assert rank_pairs(made, rank_choices(made)) == ()
    few = paired(1.0, count=20)
    assert rank_pairs(few, rank_choices(few)) == ()


def test_how_well_a_model_knew():
    rng = np.random.default_rng(0)
    costs = rng.lognormal(size=100)
    right = [Forecast(i, cost, cost) for i, cost in enumerate(costs)]
    assert accuracy_of(right) == Accuracy(100, pytest.approx(1.0), pytest.approx(0.0), 1.0)
    twice = [Forecast(f.sequence, 2 * f.cost, f.cost) for f in right]
    assert accuracy_of(twice) == Accuracy(100, pytest.approx(1.0), pytest.approx(1.0), 1.0)
    guessed = [Forecast(i, cost, f.cost) for i, (cost, f) in enumerate(zip(rng.permutation(costs), right))]
    assert abs(accuracy_of(guessed).rank) < 0.3
    assert accuracy_of(right[:7]) is None


def test_what_was_expected_rightly_lies_on_the_diagonal():
    picture = scatter([Forecast(1, 1e-3, 1e-3), Forecast(2, 4e-3, 4e-3), Forecast(3, 4e-3, 1e-3)])
    x1, y1, x2, y2 = picture.diagonal
    on = [(dot.x - x1) / (x2 - x1) - (dot.y - y1) / (y2 - y1) for dot in picture.dots]
    assert on[:2] == pytest.approx([0, 0])
    assert on[2] > 0.5  # faster than expected: below
    assert {"1.00 ms", "2.00 ms"} <= {tick.text for tick in picture.x_ticks}
    assert picture.width == 1060  # all of the page's
    assert x2 - x1 > 0.8 * picture.width


def test_every_candidate_is_a_line_through_its_values():
    made = candidates(0.5, count=30)
    ranked = rank_choices(made)
    picture = parallel_coordinates(made, ranked)
    assert [axis.title[0] for axis in picture.axes] == ["tile", "unroll", "speed"]
    assert picture.width == 1060  # few choices have all of the page's width
    assert sorted(line.sequence for line in picture.lines) == list(range(1, 31))
    best = picture.lines[-1]
    fastest = min(made, key=lambda c: c.cost)
    assert (best.rank, best.sequence) == ("best", fastest.sequence)
    assert sum(line.rank != "rest" for line in picture.lines) == 3
    points = [tuple(map(float, point.split(","))) for point in best.points.split()]
    assert [x for x, _ in points] == [axis.x for axis in picture.axes]
    assert points[-1][1] == picture.top
    tick = next(t for t in picture.axes[0].ticks if t.text == str(fastest.choices["tile"]))
    assert points[0][1] == pytest.approx(tick.at, abs=0.06)


def test_a_roof_bends_where_its_machine_balances():
    picture = roofline(10.0, [Ceiling("box", 100e9, 20e9)], [Achieved("box", "50 GFLOP/s", 50e9)])
    start, ridge, end = [tuple(map(float, point.split(","))) for point in picture.roofs[0].points.split()]
    assert picture.width == 1060  # all of the page's
    assert start[1] > ridge[1] == end[1]
    (dot,) = picture.dots
    assert ridge[0] < dot.x == picture.intensity_at < end[0]
    assert dot.y > ridge[1]
    assert [tick.text for tick in picture.y_ticks][-1] in ("1 TFLOP/s", "100 GFLOP/s")
