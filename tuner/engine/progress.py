"""A run's progress for watchers, and its outcome: frozen snapshots, no I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from rpc_server.wire.trial_messages import FailureKind
from tuner.engine.options import RunOptions
from tuner.engine.plan import TaskSearch
from tuner.engine.task_state import TaskState
from tuner.records.lookup.result import untuned_result
from tuner.records.model import TrialPurpose
from tuner.search.base import Proposal


@dataclass(frozen=True)
class TaskProgress:
    """Costs are seconds per call, or joules by `unit`; `flops` operations per call.
    `best_cost` is the lowest so far; after the finals (`in_finals`) the winner's cost there, and the run's result
    (`tuner.records.lookup.result`) once it ended. `lowest_cost` only falls. `budget` is a guess where only time is
    limited. `known` candidates were measured by other runs. The untuned function is measured first (`baseline_cost`)
    and last. `model`: the one that calls the kernel `calls` times. `baseline`: what is measured in place of the
    untuned function, by name. `result_baseline_cost`: what the ended run's result is compared with, as the store has
    it."""

    name: str
    done: int
    budget: int
    flops: float
    baseline_cost: float | None
    best_cost: float | None
    failures: Mapping[FailureKind, int]
    ended: bool
    error: str | None
    known: int = 0
    last_baseline_cost: float | None = None
    model: str = ""
    calls: float = 1.0
    unit: str = "s"
    baseline: str = ""
    lowest_cost: float | None = None
    in_finals: bool = False
    result_baseline_cost: float | None = None

    @property
    def drift(self) -> float | None:
        """The share by which the untuned function took longer at the run's end, if that is more than noise."""
        if self.baseline_cost is None or self.last_baseline_cost is None:
            return None
        return drift(self.baseline_cost, self.last_baseline_cost)

    @property
    def cost(self) -> float | None:
        """Return the present seconds a call of a build.
        They are the best candidate's, or the untuned function's if that is faster."""
        return min((cost for cost in (self.untuned_cost, self.best_cost) if cost is not None), default=None)

    @property
    def untuned_cost(self) -> float | None:
        """The untuned function's cost that the best is compared with.
        `tuner.records.lookup.result.untuned_result` defines it."""
        measured = [cost for cost in (self.baseline_cost, self.last_baseline_cost) if cost is not None]
        return self.result_baseline_cost or untuned_result([(None, cost) for cost in measured])

    @property
    def lowest(self) -> float | None:
        """The lowest cost there was so far, the untuned function's included. It never rises."""
        return min((cost for cost in (self.cost, self.lowest_cost) if cost is not None), default=None)

    @property
    def failed(self) -> int:
        return sum(self.failures.values())

    @property
    def speedup(self) -> float | None:
        """How many times as fast as untuned."""
        untuned = self.untuned_cost
        return None if untuned is None or self.best_cost is None else untuned / self.best_cost


@dataclass(frozen=True)
class ModelProgress:
    """A model's tuned kernels: the seconds that they take of a run, untuned and now; None until known.

    All kernels must be known. `best` adds up the lowest costs so far, and never rises while kernels are searched. Once
    all of them ended it adds up their results; `in_finals` says that finals measured kernels again, so it may be higher
    than before. `minute` is what the next minute of tuning should save; None once all ended, and while that is not
    known.
    """

    name: str
    untuned: float | None
    best: float | None
    minute: float | None = None
    in_finals: bool = False

    @staticmethod
    def of(name: str, tasks: Sequence[TaskProgress], minute: float | None = None) -> ModelProgress:
        """The progress of a model with these kernels.

        A kernel without a faster candidate counts as it is untuned.
        """
        untuned = [task.untuned_cost for task in tasks]
        ended = all(task.ended for task in tasks)
        best = [task.cost if ended else task.lowest for task in tasks]
        again = ended and any(task.in_finals for task in tasks)
        return ModelProgress(name, _total(untuned, tasks), _total(best, tasks), None if ended else minute, again)

    @property
    def speedup(self) -> float | None:
        """How many times as fast as untuned."""
        return self.untuned / self.best if self.untuned is not None and self.best else None


def _total(costs: Sequence[float | None], tasks: Sequence[TaskProgress]) -> float | None:
    known = [cost * task.calls for cost, task in zip(costs, tasks, strict=True) if cost is not None]
    return sum(known) if len(known) == len(tasks) else None


@dataclass(frozen=True)
class DeviceUse:
    """How a device was used so far: trials, seconds in which it measured, seconds in which it was held.
    The run held it."""

    name: str
    trials: int
    busy_s: float
    held_s: float

    @property
    def utilisation(self) -> float:
        return min(1.0, self.busy_s / self.held_s) if self.held_s > 0 else 0.0


@dataclass(frozen=True)
class Snapshot:
    """`rate` is search trials per second over the run so far; `eta_s` None until it can be guessed.
    `use` has an entry for every device that was ever held. `waiting` says where the run stands in a tracker's queue
    while it waits for its first device, or "". `overhead` is the share of the run in which nothing was built or
    measured. `minute`: see `ModelProgress`, by model."""

    run_id: int
    elapsed_s: float
    devices: int
    tasks: tuple[TaskProgress, ...]
    rate: float
    eta_s: float | None
    use: tuple[DeviceUse, ...] = ()
    waiting: str = ""
    overhead: float = 0.0
    minute: Mapping[str, float | None] = field(default_factory=dict)
    held_before_s: float = 0.0

    @property
    def held_s(self) -> float:
        """Seconds that devices were held for the run, all together, earlier sessions included."""
        return self.held_before_s + sum(u.held_s for u in self.use)

    @property
    def utilisation(self) -> float:
        """Time measuring over time held, of all devices."""
        held = sum(u.held_s for u in self.use)
        return min(1.0, sum(u.busy_s for u in self.use) / held) if held > 0 else 0.0

    @property
    def failures(self) -> Mapping[FailureKind, int]:
        """The failures of all tasks, most frequent first."""
        return dict(sum((Counter(t.failures) for t in self.tasks), Counter()).most_common())

    @property
    def models(self) -> tuple[ModelProgress, ...]:
        """The models whose kernels are tuned, in order."""
        names = dict.fromkeys(task.model for task in self.tasks if task.model)
        return tuple(
            ModelProgress.of(name, [task for task in self.tasks if task.model == name], self.minute.get(name))
            for name in names
        )

    def with_results(self, results: Sequence[tuple[float | None, float | None]]) -> Snapshot:
        """Return the snapshot of an ended run by its tasks' `results`: each one's cost and its baseline's.
        A task without a result keeps its best so far."""
        ended = zip(self.tasks, results, strict=True)
        return replace(
            self,
            tasks=tuple(
                replace(task, best_cost=best or task.best_cost, result_baseline_cost=untuned)
                for task, (best, untuned) in ended
            ),
        )

    @property
    def done(self) -> int:
        return sum(t.done for t in self.tasks)

    @property
    def budget(self) -> int:
        return sum(t.done if t.ended else t.budget for t in self.tasks)


@dataclass(frozen=True)
class TrialDone:
    """A trial that was just recorded.
    `samples` are seconds per call and `cost` their median; both empty when it failed with `failure` and its `text`.
    `device` is "" when no device saw it. `timestamp` is seconds since 1970."""

    task: int
    purpose: TrialPurpose
    candidate: Proposal | None
    samples: tuple[float, ...]
    cost: float | None
    failure: FailureKind | None
    text: str
    build_s: float
    measure_s: float
    device: str
    noise: tuple[str, ...]
    timestamp: float


class Watcher(Protocol):
    """An observer of a run's progress, called from the engine's thread; must not block."""

    def update(self, snapshot: Snapshot) -> None:
        """After events that changed something, some ten times a second, and at the end."""

    def trial(self, done: TrialDone) -> None:
        """After every trial, in the order they are recorded."""

    def note(self, text: str) -> None:
        """Something worth a line: a device came or went, a task ended."""


class NoWatcher:
    """A watcher that does nothing."""

    def update(self, snapshot: Snapshot) -> None:
        pass

    def trial(self, done: TrialDone) -> None:
        pass

    def note(self, text: str) -> None:
        pass


def gflops(flops: float, cost: float | None) -> float | None:
    """Speed in 10⁹ operations per second, None without a cost."""
    return flops / cost / 1e9 if cost and flops else None


_NOISY_DRIFT = 0.1


def drift(first: float, last: float) -> float | None:
    """The share by which a repeated measurement took longer than `first`.
    None if that is no more than noise."""
    change = last / first - 1
    return change if abs(change) > _NOISY_DRIFT else None


def task_progress(
    search: TaskSearch, state: TaskState, options: RunOptions, tasks: int, error: str | None
) -> TaskProgress:
    """One task of a run of `tasks`.
    Where only the run is limited, its budget is taken to be an even share."""
    share = -(-options.total_trials // tasks)
    return TaskProgress(
        name=search.task.name, done=state.done,
        budget=max(state.asked, min(options.trials or share, share or options.trials)), flops=search.task.flops,
        baseline_cost=state.baseline_cost, best_cost=state.best_cost, failures=dict(state.failures), ended=state.ended,
        error=error, known=state.known, last_baseline_cost=state.last_baseline_cost, model=search.model,
        calls=search.weight, unit=options.goal.unit, baseline=search.task.baseline, lowest_cost=state.lowest_cost,
        in_finals=state.in_finals,
    )  # fmt: skip


def time_left(
    options: RunOptions, tasks: Sequence[TaskProgress], rate: float, elapsed_s: float, held_s: float = 0.0,
    devices: int = 0,
) -> float | None:  # fmt: skip
    """Seconds until the first limit is reached at `rate` trials a second.
    So many `devices` were held for `held_s` together so far. None while that cannot be estimated."""
    guesses = [options.seconds - elapsed_s] if options.seconds else []
    if options.task_seconds:
        guesses.append(options.task_seconds * len(tasks) - elapsed_s)
    if options.device_hours and devices:
        guesses.append((3600 * options.device_hours - held_s) / devices)
    left = sum(t.budget - t.done for t in tasks if not t.ended)
    if options.total_trials:
        left = min(left, options.total_trials - sum(t.done for t in tasks))
    if rate > 0 and elapsed_s > 1 and (options.trials or options.total_trials):
        guesses.append(left / rate)
    return max(0.0, min(guesses)) if guesses else None


@dataclass(frozen=True)
class Best:
    """The fastest candidate of a task after the finals; `cost` in seconds per call."""

    candidate: Proposal
    cost: float


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run; `best` has one entry for each task, None where nothing was measured."""

    snapshot: Snapshot
    best: tuple[Best | None, ...]


def bests(tasks: Sequence[TaskState]) -> tuple[Best | None, ...]:
    """The fastest of each task so far."""
    return tuple(Best(t.best, t.best_cost) if t.best is not None and t.best_cost is not None else None for t in tasks)
