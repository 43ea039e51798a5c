"""Series of times: their noise, their steps, and what is told from a new result."""

import math

import numpy as np
import pytest

from tuner.bench.changes import LEAST_HISTORY, ChangeKind, confirmed, find_steps, judge


def steady(count, noise=0.01, level=1e-3, seed=0):
    rng = np.random.default_rng(seed)
    return [level * math.exp(noise * rng.normal()) for _ in range(count)]


def test_nothing_is_told_of_a_short_series():
    assert judge([], 1.0).kind is ChangeKind.NEW
    verdict = judge([1.0] * (LEAST_HISTORY - 1), 9.0)
    assert (verdict.kind, verdict.ratio, verdict.count) == (ChangeKind.NEW, 9.0, LEAST_HISTORY - 1)


@pytest.mark.parametrize(
    ("ratio", "kind"),
    [(1.0, ChangeKind.STEADY), (1.01, ChangeKind.STEADY), (1.2, ChangeKind.SLOWER), (0.8, ChangeKind.FASTER)],
)
def test_a_result_against_a_steady_series(ratio, kind):
    history = steady(20)
    verdict = judge(history, ratio * float(np.median(history)))
    assert verdict.kind is kind
    assert verdict.ratio == pytest.approx(ratio)
    assert 0.03 <= verdict.fence < 0.06


def test_a_noisy_series_has_a_wide_fence():
    assert judge(steady(30, noise=0.1), 1.2e-3).kind is ChangeKind.STEADY


def test_one_outlier_does_not_widen_the_fence():
    history = steady(20)
    assert judge([*history[:10], 5e-3, *history[10:]], 1.15e-3).kind is ChangeKind.SLOWER


def test_the_last_level_counts():
    history = [*steady(15), *steady(10, level=2e-3, seed=1)]
    assert find_steps(np.log(history)) == (15,)
    verdict = judge(history, 2.01e-3)
    assert (verdict.kind, verdict.count) == (ChangeKind.STEADY, 10)
    assert judge(history, 1e-3).kind is ChangeKind.FASTER


def test_several_steps_are_found_where_they_are():
    history = [*steady(10), *steady(8, level=1.3e-3, seed=1), *steady(12, level=0.9e-3, seed=2)]
    assert find_steps(np.log(history)) == (10, 18)


@pytest.mark.parametrize("seed", range(20))
def test_noise_has_no_steps(seed):
    assert find_steps(np.log(steady(40, noise=0.02, seed=seed))) == ()


def test_a_suspicion_is_borne_out_by_four_of_five():
    suspicion = judge(steady(20), 1.3e-3)
    slow, usual = 1.3e-3, 1e-3
    assert confirmed(suspicion, []) is None
    assert confirmed(suspicion, [slow, slow, slow]) is None
    assert confirmed(suspicion, [slow, usual, slow, slow]) is None
    assert confirmed(suspicion, [slow, usual, slow, slow, slow]) is True
    assert confirmed(suspicion, [usual, usual]) is False
    assert confirmed(suspicion, [0.5e-3, 0.5e-3]) is False  # outside, but on the other side
