"""Which task the next trial goes to. Pure: what is known of each task in, a choice out.

The gradient policy is the task scheduler of Ansor (Zheng et al., OSDI 2020, section 6), with changes. It spends
trials where the objective is expected to fall most. Here the expected gain is divided by the wall time of a trial of
the task, so a kernel that is slow to build or measure must promise more. A task without gain for a while loses part
of its hope by `gamma` a window. Dead ends (only failures, or an optimum already found) then starve instead of being
tried for ever on an optimistic estimate. Trials are given out one by one, not in rounds, so candidates asked for and
not yet measured count.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

Objective = Callable[[Sequence[float]], float]
"""What a run makes small, from every task's cost (seconds a call), for example the latency of a network."""


class Policy(StrEnum):
    GRADIENT = "gradient"
    ROUND_ROBIN = "round-robin"


@dataclass(frozen=True)
class GradientOptions:
    """Weights of the scheduler.
    `alpha` weighs the gain seen over the last `window` trials against the gain hoped for. `beta`: a task is expected
    to reach 1/beta of the speed of the fastest task of its group. `gamma`: what is left of a hope after each window
    without gain. Every task gets `warmup` trials before gains are compared."""

    alpha: float = 0.2
    beta: float = 2.0
    gamma: float = 0.5
    window: int = 16
    warmup: int = 8

    def __post_init__(self) -> None:
        if not (0 <= self.alpha <= 1 and self.beta > 0 and 0 < self.gamma <= 1 and self.window >= 1):
            raise ValueError("alpha is within 0 to 1, beta positive, gamma within 0 to 1, window at least 1")


@dataclass(frozen=True)
class TaskView:
    """A task for the scheduler.
    `asked` trials are given out, `history[i]` is the best cost after trial i + 1 (the untuned cost while all have
    failed), `stale` the finished trials since the last gain. `seconds` is the wall time a trial takes, None before
    one has ended; `flops` of one call (0: unknown); tasks of one `group` are expected to reach similar speeds."""

    index: int
    asked: int
    cost: float
    history: Sequence[float] = field(default=())
    stale: int = 0
    seconds: float | None = None
    weight: float = 1.0
    flops: float = 0.0
    group: str = ""


Chooser = Callable[[Sequence[TaskView], Sequence[TaskView]], int | None]
"""Chooses a task in place of a policy: of those that are able, given all, the index of one or None."""


def choose(
    able: Sequence[TaskView],
    policy: Policy,
    options: GradientOptions,
    everyone: Sequence[TaskView] = (),
    objective: Objective | None = None,
) -> int | None:
    """The index of the task of `able` to ask for a candidate, None when there is none.

    `everyone` also holds the run's other tasks, ended ones included, for groups and `objective` (default: the sum of
    weight times cost).
    """
    if not able:
        return None
    fewest = min(able, key=lambda t: (t.asked, t.index))
    if policy is Policy.ROUND_ROBIN or fewest.asked < options.warmup:
        return fewest.index
    everyone = everyone or able
    typical = _typical_seconds(able)
    gains = {t.index: gain_per_second(t, everyone, options, objective, typical) for t in able}
    best = max(gains.values())
    # equal promise (often: none at all) is shared out evenly
    return min((t for t in able if gains[t.index] == best), key=lambda t: (t.asked, t.index)).index


def gain_per_second(
    task: TaskView,
    everyone: Sequence[TaskView],
    options: GradientOptions,
    objective: Objective | None = None,
    typical_s: float = 1.0,
) -> float:
    """How much the objective is expected to fall for a second spent on `task`. Never negative."""
    seen = _seen_gain(task, options.window)
    hoped = _hoped_gain(task, everyone, options) * math.pow(options.gamma, task.stale / options.window)
    gain = options.alpha * seen + (1 - options.alpha) * hoped
    return _slope(task, everyone, objective) * gain / max(task.seconds or typical_s, 1e-9)


def _typical_seconds(tasks: Sequence[TaskView]) -> float:
    known = [t.seconds for t in tasks if t.seconds is not None]
    return sum(known) / len(known) if known else 1.0


def _seen_gain(task: TaskView, window: int) -> float:
    """Seconds of cost gained a trial over the last window."""
    history = task.history
    if len(history) <= window:
        return 0.0
    return (history[-1 - window] - history[-1]) / window


def _hoped_gain(task: TaskView, everyone: Sequence[TaskView], options: GradientOptions) -> float:
    """Estimate a trial's gain optimistically, as if all trials so far had halved the cost.
    It is larger if a similar kernel is much faster already."""
    hope = task.cost / max(1, task.asked)
    alike = [t for t in everyone if task.group and t.group == task.group and t.flops and t.cost > 0]
    if len(alike) > 1 and task.flops:
        speeds = [t.flops / t.cost for t in alike]
        reachable = options.beta * task.flops / max(speeds)
        hope = max(hope, task.cost - reachable)
    return hope


def _slope(task: TaskView, everyone: Sequence[TaskView], objective: Objective | None) -> float:
    """How much the objective falls for a second of this task's cost (the chain rule, by a difference)."""
    if objective is None:
        return task.weight
    costs = [t.cost for t in everyone]
    place = next(i for i, t in enumerate(everyone) if t.index == task.index)
    step = 1e-3 * costs[place]
    if step <= 0:
        return 0.0
    nearer = [*costs[:place], costs[place] - step, *costs[place + 1 :]]
    return max(0.0, (objective(costs) - objective(nearer)) / step)
