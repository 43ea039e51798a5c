"""Which candidate is best: intervals, ties and elections."""

from __future__ import annotations

import random
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.runtime.measure.statistics import Interval, summarise
from tuner.records.lookup.best import DRIFT, Evidence, Verdict, compare, elect, interval
from tuner.records.lookup.keys import fingerprint_digest, toolchain_key
from tuner.records.runs.ingest import MAX_FAILURE_TEXT, shorten

SECONDS = st.floats(min_value=1e-9, max_value=1e3, allow_nan=False)
SAMPLES = st.lists(SECONDS, min_size=1, max_size=30)


def _evidence(candidate: int, run: int, *samples: float) -> Evidence:
    return Evidence(candidate_id=candidate, run_id=run, trial_id=candidate, samples=samples)


@given(SAMPLES)
def test_an_interval_holds_its_median(samples: list[float]) -> None:
    bounds = interval(samples)
    assert 0 <= bounds.low <= bounds.median <= bounds.high
    assert bounds.median == median(samples)
    assert bounds.high - bounds.low >= 2 * DRIFT * bounds.median * 0.999


@given(SAMPLES, st.integers(0, 10**6))
def test_an_interval_does_not_care_about_order(samples: list[float], seed: int) -> None:
    shuffled = samples[:]
    random.Random(seed).shuffle(shuffled)
    assert interval(shuffled) == interval(samples)


def test_few_samples_say_less_than_their_range() -> None:
    bounds = interval([1.0, 1.1, 1.2])
    assert bounds.low < 1.0
    assert bounds.high > 1.2


def test_many_samples_narrow_the_interval() -> None:
    rng = random.Random(7)
    samples = [1 + abs(rng.gauss(0, 0.05)) for _ in range(200)]
    few, many = interval(samples[:8]), interval(samples)
    assert many.high - many.low < few.high - few.low


def test_one_outlier_among_many_moves_nothing() -> None:
    calm = [1.0 + i * 1e-3 for i in range(11)]
    assert interval([*calm[:-1], 50.0]) == interval(calm)


@pytest.mark.parametrize(("count", "least"), [(6, 0.93), (12, 0.93), (40, 0.93)])
def test_intervals_cover_the_true_median(count: int, least: float) -> None:
    """Skewed like timings are: the interval holds the true median in 95 % of repetitions (exact for the order
    statistics, so only the seed's own scatter is allowed for)."""
    rng = random.Random(count)
    true_median = 10 + median(rng.expovariate(1) for _ in range(100_001))
    held = 0
    for _ in range(600):
        bounds = interval([10 + rng.expovariate(1) for _ in range(count)])
        held += bounds.low <= true_median <= bounds.high
    assert held / 600 >= least


def test_no_samples_are_an_error() -> None:
    with pytest.raises(ValueError, match="no samples"):
        interval([])
    with pytest.raises(ValueError, match="no candidates"):
        elect([])


def test_overlap_is_a_tie() -> None:
    incumbent = Interval(0.9, 1.0, 1.1)
    assert compare(incumbent, Interval(0.7, 0.8, 0.95)) is Verdict.TIE
    assert compare(incumbent, Interval(0.7, 0.8, 0.85)) is Verdict.FASTER
    assert compare(incumbent, Interval(1.2, 1.3, 1.4)) is Verdict.SLOWER


def test_within_a_run_the_lower_median_wins() -> None:
    assert elect([_evidence(1, 1, 1.0, 1.1, 1.2), _evidence(2, 1, 0.99, 1.09, 1.3)]).candidate_id == 2


def test_within_a_run_finalists_go_before_what_was_lucky_once() -> None:
    lucky, slower = _evidence(1, 1, 0.8), Evidence(3, 1, 3, (1.1, 1.1, 1.1), final=True)
    finalist = Evidence(2, 1, 2, (1.0, 1.0, 1.0), final=True)
    assert elect([lucky, finalist, slower]) is finalist
    served = _evidence(4, 0, 0.5)  # of an earlier run
    assert elect([served, finalist]) is served


def test_across_runs_a_tie_keeps_the_incumbent() -> None:
    old, tie = _evidence(1, 1, 1.00, 1.01, 1.02), _evidence(2, 2, 0.98, 0.99, 1.00)
    assert elect([tie, old]) is old
    clear = _evidence(3, 2, 0.8, 0.8, 0.8)
    assert elect([tie, clear, old]) is clear


def test_runs_are_heard_in_order() -> None:
    """Run 2 beat run 1 clearly, run 3 ties with run 2: run 2 stays."""
    found = elect([_evidence(1, 1, 1.0, 1.0), _evidence(2, 2, 0.7, 0.7), _evidence(3, 3, 0.699, 0.699)])
    assert found.candidate_id == 2


@given(st.lists(st.tuples(st.integers(1, 4), SAMPLES), min_size=1, max_size=12), st.integers(0, 10**6))
def test_an_election_depends_on_the_evidence_alone(entries: list[tuple[int, list[float]]], seed: int) -> None:
    candidates = [_evidence(i, run, *samples) for i, (run, samples) in enumerate(entries)]
    shuffled = candidates[:]
    random.Random(seed).shuffle(shuffled)
    assert elect(shuffled) == elect(candidates)


def test_median_and_deviation() -> None:
    assert summarise([3.0, 1.0, 2.0, 10.0]) == (2.5, 1.0)


def test_toolchain_keys_leave_out_what_changes_no_code() -> None:
    assert toolchain_key({"tunefarm": "0.1.3.dev0", "llvm": "22.1.0", "python": "3.11"}) == "llvm-22,tunefarm-0.1"
    assert toolchain_key({}) == "unknown"


def test_fingerprints_are_equal_whatever_their_order() -> None:
    assert fingerprint_digest({"a": 1, "b": [2]}) == fingerprint_digest({"b": [2], "a": 1})
    assert fingerprint_digest({"a": 1}) != fingerprint_digest({"a": 2})


def test_a_long_text_keeps_both_ends() -> None:
    long = "start" + "x" * 100_000 + "end"
    short = shorten(long)
    assert short.startswith("start")
    assert short.endswith("end")
    assert len(short) < MAX_FAILURE_TEXT + 100
    assert shorten("short") == "short"
