"""How long a kernel is timed."""

from __future__ import annotations

import pytest

from rpc_server.adaptive import is_enough, is_hopeless, is_slower
from rpc_server.measure import EvaluatorOptions

ADAPTIVE = EvaluatorOptions(repeat=3, max_repeat=12, precision=0.02, slower_than=1.1)


def taken(samples, options=ADAPTIVE) -> int:
    """After how many of `samples` timing stops."""
    return next(n for n in range(1, len(samples) + 1) if is_enough(samples[:n], options))


def test_tight_samples_stop_at_the_least():
    assert taken([1.0, 1.001, 1.0, 1.0]) == 3


def test_scattered_samples_go_on_to_the_most():
    assert taken([1.0, 1.3, 0.9, 1.2, 1.0, 1.4, 0.8, 1.1, 1.3, 0.9, 1.1, 1.2, 1.0]) == 12


def test_going_on_pays():
    assert 3 < taken([1.0, 1.1, *[1.0, 1.001] * 5]) < 12


def test_a_fixed_number_is_a_fixed_number():
    fixed = EvaluatorOptions(repeat=4)
    assert taken([1.0, 9.0, 3.0, 1.0, 1.0], fixed) == 4


def test_a_clearly_slower_kernel_is_dropped_after_two_samples():
    assert taken([1.3, 1.2, 1.25]) == 2
    assert is_slower([1.3, 1.2], ADAPTIVE)


@pytest.mark.parametrize("samples", [[5.0], [5.0, 1.05], [1.0, 5.0, 5.0]])
def test_a_disturbed_sample_drops_nobody(samples):
    assert not is_slower(samples, ADAPTIVE)


def test_only_twice_as_slow_is_hopeless_at_once():
    assert is_hopeless(6.7, 3, ADAPTIVE)
    assert not is_hopeless(6.0, 3, ADAPTIVE)
    assert not is_hopeless(1e9, 1, EvaluatorOptions())


@pytest.mark.parametrize("wrong", [{"max_repeat": -1}, {"precision": -0.1}, {"slower_than": float("nan")}])
def test_limits_are_checked(wrong):
    with pytest.raises(ValueError, match="not negative"):
        EvaluatorOptions(**wrong)
