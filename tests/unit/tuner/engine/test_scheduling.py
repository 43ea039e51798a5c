"""Which task gets the next trial."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tuner.engine.scheduling import GradientOptions, Policy, TaskView, choose, gain_per_second

OPTIONS = GradientOptions(window=4, warmup=2)


def task(index: int, asked: int = 20, cost: float = 1.0, **more) -> TaskView:
    return TaskView(index, asked, cost, **{"history": [cost] * asked, "seconds": 1.0, **more})


def pick(*tasks: TaskView, policy: Policy = Policy.GRADIENT, objective=None) -> int | None:
    return choose(tasks, policy, OPTIONS, tasks, objective)


def test_nobody_is_chosen_from_nobody():
    assert pick() is None


def test_round_robin_takes_the_one_with_the_fewest_trials():
    assert pick(task(0, 9), task(1, 7), task(2, 7), policy=Policy.ROUND_ROBIN) == 1


def test_everyone_is_warmed_up_first():
    assert pick(task(0, 20, cost=100.0), task(1, 1)) == 1


def test_the_most_expensive_kernel_promises_most():
    assert pick(task(0), task(1, cost=5.0), task(2, cost=2.0)) == 1


def test_weights_count():
    assert pick(task(0, cost=2.0), task(1, weight=3.0)) == 1


def test_gain_is_for_a_second_not_for_a_trial():
    assert pick(task(0, cost=2.0, seconds=4.0), task(1)) == 1
    assert pick(task(0, cost=2.0, seconds=1.5), task(1)) == 0


def test_a_task_that_still_gains_is_preferred():
    gaining = task(1, history=[3.0] * 15 + [2.5, 2.0, 1.5, 1.2, 1.0])
    assert pick(task(0), gaining) == 1


def test_a_dead_end_starves_but_is_not_forgotten():
    """A task that gains nothing gets ever fewer trials, also when it costs most."""
    views = [task(0, 8, cost=10.0, history=[10.0] * 8), task(1, 8, history=[1.0] * 8)]
    given = [0, 0]
    for _ in range(200):
        chosen = pick(*views)
        assert chosen is not None
        given[chosen] += 1
        old = views[chosen]
        stale = old.stale + 1 if chosen == 0 else 0
        cost = old.cost if chosen == 0 else old.cost * 0.995
        views[chosen] = replace(old, asked=old.asked + 1, cost=cost, history=[*old.history, cost], stale=stale)
    assert 5 <= given[0] < given[1] / 3


def test_two_dead_ends_share():
    views = [task(0, history=[1.0] * 20), task(1, history=[1.0] * 20)]
    given = [0, 0]
    for _ in range(40):
        chosen = pick(*views)
        assert chosen is not None
        given[chosen] += 1
        views[chosen] = replace(views[chosen], asked=views[chosen].asked + 1, stale=views[chosen].stale + 1)
    assert given == [20, 20]


def test_a_kernel_far_behind_its_like_is_preferred():
    fast = task(0, cost=1.0, flops=100.0, group="matmul")
    slow = task(1, cost=1.0, flops=5.0, group="matmul")
    assert pick(fast, slow) == 1
    assert pick(fast, replace(slow, group="conv2d")) == 0  # nothing to compare with: a tie, the first


def test_an_objective_decides_what_a_gain_is_worth():
    def slowest(costs):
        return max(costs)

    assert pick(task(0, cost=2.0, seconds=100.0), task(1, cost=1.9), objective=slowest) == 0


def test_ended_tasks_count_in_the_objective_and_the_group():
    able = [task(1, cost=4.0, flops=10.0, group="g")]
    ended = task(0, cost=1.0, flops=10.0, group="g")
    assert choose(able, Policy.GRADIENT, OPTIONS, [ended, *able], sum) == 1
    alone = gain_per_second(able[0], able, OPTIONS)
    assert gain_per_second(able[0], [ended, *able], OPTIONS) > alone


@pytest.mark.parametrize("wrong", [{"alpha": 2.0}, {"beta": 0.0}, {"gamma": 0.0}, {"window": 0}])
def test_options_out_of_range(wrong):
    with pytest.raises(ValueError, match="alpha"):
        GradientOptions(**wrong)
