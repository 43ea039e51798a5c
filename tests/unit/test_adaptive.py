"""How long a kernel is timed."""

from __future__ import annotations

import pytest

from rpc_server.adaptive import is_doubtful, is_enough, is_hopeless, is_slower
from rpc_server.measure import EvaluatorOptions
from rpc_server.trial import _Hopeless, _Samples

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


QUICK = EvaluatorOptions(repeat=3, max_repeat=12, slower_than=0.0011)


def test_what_would_rule_a_kernel_out_by_itself_is_taken_again():
    assert is_doubtful(0.005, 1, False, QUICK)
    assert not is_doubtful(0.0012, 1, False, QUICK)
    assert not is_doubtful(0.5, 1, False, QUICK)  # no interruption takes so long
    assert not is_doubtful(0.005, 1, False, EvaluatorOptions())


def test_a_slow_measurement_that_was_interrupted_is_taken_again():
    assert is_doubtful(0.024, 20, True, QUICK)
    assert not is_doubtful(0.021, 20, True, QUICK)  # it does not speak against the kernel
    assert not is_doubtful(0.24, 200, True, QUICK)


class Subject:
    """Calls of a millisecond, of which the ones numbered take five: somebody else had the core."""

    def __init__(self, held_up):
        self.held_up, self.calls = held_up, 0

    def timed(self, number):
        spent = sum(5_000_000 if self.calls + i in self.held_up else 1_000_000 for i in range(number))
        self.calls += number
        return spent


@pytest.mark.parametrize(("held_up", "ruled_out"), [({0}, False), ({0, 1}, False), ({0, 1, 2}, True)])
def test_one_interruption_rules_no_kernel_out(held_up, ruled_out):
    subject = Subject(held_up)
    samples = _Samples(subject, float("inf"), QUICK)  # type: ignore[arg-type]
    if ruled_out:
        with pytest.raises(_Hopeless):
            samples.warm_up()
    else:
        samples.warm_up()
        assert samples.so_far() == (0.001,)


@pytest.mark.parametrize("wrong", [{"max_repeat": -1}, {"precision": -0.1}, {"slower_than": float("nan")}])
def test_limits_are_checked(wrong):
    with pytest.raises(ValueError, match="not negative"):
        EvaluatorOptions(**wrong)
