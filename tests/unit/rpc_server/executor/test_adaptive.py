"""How long a kernel is timed."""

from __future__ import annotations

import pytest

from rpc_server.executor.adaptive import is_doubtful, is_enough, is_hopeless, is_slower, piece
from rpc_server.executor.trial import _Samples, _time, _TooSlow
from rpc_server.wire.trial_messages import EvaluatorOptions

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


def test_a_few_short_calls_rule_nothing_out():
    """A kernel takes twice and thrice its time while its threads wake up."""
    short = EvaluatorOptions(slower_than=0.00015)
    assert not is_hopeless(0.0006, 1, short)
    assert is_hopeless(0.012, 20, short)


def test_a_sample_is_timed_in_pieces_where_they_may_be_taken_again():
    assert piece(700, 0.00014, QUICK) == 72  # ten milliseconds
    assert piece(3, 0.00014, QUICK) == 3
    assert piece(5, 1.0, QUICK) == 1
    assert piece(700, 0.0, QUICK) == 700
    assert piece(700, 0.00014, EvaluatorOptions()) == 700


QUICK = EvaluatorOptions(repeat=3, max_repeat=12, slower_than=0.0011)


def test_what_would_rule_a_kernel_out_by_itself_is_taken_again():
    assert is_doubtful(0.006, 1, False, QUICK)
    assert not is_doubtful(0.0012, 1, False, QUICK)
    assert not is_doubtful(0.5, 1, False, QUICK)  # no interruption takes so long
    assert not is_doubtful(0.005, 1, False, EvaluatorOptions())


def test_a_slow_measurement_that_was_interrupted_is_taken_again():
    assert is_doubtful(0.024, 20, True, QUICK)
    assert not is_doubtful(0.021, 20, True, QUICK)  # it does not speak against the kernel
    assert not is_doubtful(0.24, 200, True, QUICK)


class Subject:
    """Calls of a millisecond, of which the ones numbered take ten: somebody else had the core. `asked`: for how many at
    a time."""

    def __init__(self, held_up):
        self.held_up, self.calls, self.asked = held_up, 0, []

    def timed(self, number):
        spent = sum(10_000_000 if self.calls + i in self.held_up else 1_000_000 for i in range(number))
        self.calls += number
        self.asked.append(number)
        return spent

    timed_warm = timed


@pytest.mark.parametrize(("held_up", "ruled_out"), [({0}, False), ({0, 1}, False), ({0, 1, 2}, True)])
def test_one_interruption_rules_no_kernel_out(held_up, ruled_out):
    subject = Subject(held_up)
    samples = _Samples(subject, float("inf"), QUICK)  # type: ignore[arg-type]
    if ruled_out:
        with pytest.raises(_TooSlow):
            samples.warm_up()
    else:
        samples.warm_up()
        assert samples.so_far() == (0.001,)


@pytest.mark.parametrize(("least", "asked"), [(10, [1, 5]), (0, [1])])
def test_threads_have_time_to_find_their_cores(least, asked):
    subject = Subject({})
    options = EvaluatorOptions(number=1, repeat=3, min_repeat_ms=least)
    _Samples(subject, float("inf"), options).warm_up()  # type: ignore[arg-type]
    assert subject.asked == asked


def test_of_a_long_sample_only_the_disturbed_piece_is_taken_again():
    disturbed = {21, 22, 23}  # of the third piece, after one call to warm up
    subject = Subject(disturbed)
    samples = _Samples(subject, float("inf"), QUICK)  # type: ignore[arg-type]
    samples.warm_up()
    assert samples.run(45) == 45_000_000
    assert subject.asked == [1, 10, 10, 10, 10, 10, 5]


def test_a_slow_kernel_is_given_up_within_its_first_sample():
    subject = Subject(set(range(1, 1000)))
    samples = _Samples(subject, float("inf"), QUICK)  # type: ignore[arg-type]
    samples.warm_up()
    with pytest.raises(_TooSlow):
        samples.run(100)
    assert subject.calls <= 1 + 3 * 10  # one piece, taken thrice


def test_a_kernel_that_is_too_slow_with_warm_weights_is_not_timed_without():
    class NeverCold(Subject):
        def timed_warm(self, number):
            return 10_000_000 * number

        def timed(self, number):
            raise AssertionError("its weights were copied")

    with pytest.raises(_TooSlow):
        _Samples(NeverCold({}), float("inf"), QUICK).warm_up()  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [{"max_repeat": -1}, {"precision": -0.1}, {"slower_than": float("nan")}])
def test_limits_are_checked(wrong):
    with pytest.raises(ValueError, match="not negative"):
        EvaluatorOptions(**wrong)


class Slow:
    """Takes a millisecond a call, by its own account."""

    def __init__(self) -> None:
        self.calls = 0

    def timed(self, number: int) -> int:
        self.calls += number
        return number * 1_000_000

    timed_warm = timed

    def environment(self) -> dict[str, float]:
        return {}


def test_a_slow_kernel_is_timed_with_fewer_calls() -> None:
    """The calls are as many as fit into two fifths of the time that is left."""
    slow = Slow()
    result = _time(slow, EvaluatorOptions(number=100_000, repeat=50), once=0.001, left=100.0)  # type: ignore[arg-type]
    assert result.environment["number"] == 800
    assert len(result.costs) == 50
    assert slow.calls * 0.001 == pytest.approx(40.0, abs=0.002)
