"""The tuning engine's decisions, without I/O: events in, commands out.

Every device slot is kept busy: candidates are asked for and built ahead of the measurements, results are told
to the search as they arrive, and there are no rounds. Each task goes through three stages: its untuned build
(baseline, and the reference every candidate's output is compared with), the search, and the finals, in which
the best few are measured again, in turns, on one device.
"""

from __future__ import annotations

import statistics
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import assert_never

from rpc_server.measure import FailureKind, MeasureResult
from tuner.builder import BuildResult
from tuner.records.model import TrialPurpose
from tuner.search.base import Candidate, SearchStrategy


@dataclass(frozen=True)
class Job:
    """One build and measurement of one candidate (None: the untuned function)."""

    id: int
    task: int
    purpose: TrialPurpose
    candidate: Candidate | None


# --------------------------------------------------------------------------------- events


@dataclass(frozen=True)
class Built:
    job: Job
    result: BuildResult


@dataclass(frozen=True)
class Measured:
    job: Job
    slot: int
    result: MeasureResult


@dataclass(frozen=True)
class SlotUp:
    """A device is leased and waits for work."""

    slot: int


@dataclass(frozen=True)
class SlotDown:
    """A device is gone; the job it held, if any, was not measured."""

    slot: int
    reason: str


@dataclass(frozen=True)
class Stop:
    """Finish what is in flight on no account: the user wants out."""

    reason: str


Event = Built | Measured | SlotUp | SlotDown | Stop

# ------------------------------------------------------------------------------- commands


@dataclass(frozen=True)
class SubmitBuild:
    job: Job


@dataclass(frozen=True)
class SubmitMeasure:
    """Measure `artifact` on `slot`, outputs compared with `reference`."""

    job: Job
    slot: int
    artifact: bytes
    reference: bytes


@dataclass(frozen=True)
class RecordTrial:
    """A trial is over: `measured` is None when it failed before a device saw it."""

    job: Job
    slot: int | None
    build: BuildResult
    measured: MeasureResult | None
    failure: FailureKind | None
    text: str


@dataclass(frozen=True)
class TaskEnded:
    """A task used its budget or its space, or gave up (`error`)."""

    task: int
    error: str | None


@dataclass(frozen=True)
class RunEnded:
    reason: str


Command = SubmitBuild | SubmitMeasure | RecordTrial | TaskEnded | RunEnded

# ---------------------------------------------------------------------------------- state


@dataclass(frozen=True)
class Limits:
    """`trials` a task. A task gives up when its first `equal_failures` trials all fail with one kind.
    `build_ahead` candidates wait built for each slot; `lost_retries`: how often a job whose device vanished
    is tried on another before the job itself is suspected."""

    trials: int
    build_ahead: int = 2
    builders: int = 2
    finalists: int = 3
    final_rounds: int = 2
    equal_failures: int = 12
    lost_retries: int = 1


@dataclass(frozen=True)
class Restored:
    """A trial recorded before: `candidate` is None when its trace is of no sketch known today."""

    candidate: Candidate | None
    cost: float | None
    failure: FailureKind | None


@dataclass
class TaskState:
    """One task's progress. `done` counts search trials finished, failed ones included."""

    index: int
    strategy: SearchStrategy
    reference: bytes | None = None
    asked: int = 0
    done: int = 0
    exhausted: bool = False
    baseline_cost: float | None = None
    best_cost: float | None = None
    best: Candidate | None = None
    failures: Counter[FailureKind] = field(default_factory=Counter)
    first_failure: str = ""
    ranking: list[tuple[float, Candidate]] = field(default_factory=list)
    finals_left: list[Candidate] | None = None
    final_costs: dict[str, list[float]] = field(default_factory=dict)
    ended: bool = False


@dataclass(frozen=True)
class _Ready:
    job: Job
    build: BuildResult


class EngineState:
    """See the module's text. Not thread safe: one thread feeds it."""

    def __init__(self, strategies: Sequence[SearchStrategy], limits: Limits) -> None:
        self.limits = limits
        self.tasks = [TaskState(i, s) for i, s in enumerate(strategies)]
        self._next_job = 0
        self._building: dict[int, Job] = {}
        self._ready: deque[_Ready] = deque()
        self._slots: dict[int, _Ready | None] = {}
        self._lost: Counter[int] = Counter()
        self.ended = False

    # -- what the outside may look at

    @property
    def slots_up(self) -> int:
        return len(self._slots)

    def in_flight(self, task: int) -> int:
        jobs = [*self._building.values(), *(r.job for r in self._ready)]
        jobs += [r.job for r in self._slots.values() if r is not None]
        return sum(job.task == task for job in jobs)

    def restore(self, task: int, baseline_cost: float | None, trials: Sequence[Restored]) -> None:
        """Take up a task where an earlier run left it; call before `start`."""
        state = self.tasks[task]
        state.baseline_cost = baseline_cost
        for trial in trials:
            state.asked += 1
            if trial.cost is None:
                assert trial.failure is not None
                state.done += 1
                state.failures[trial.failure] += 1
                if trial.candidate is not None:
                    state.strategy.tell(trial.candidate, None)
            elif trial.candidate is not None:
                self._succeeded(state, Job(0, task, TrialPurpose.SEARCH, trial.candidate), trial.cost)
            else:
                state.done += 1

    # -- events

    def start(self) -> list[Command]:
        """Begin: build every task's reference."""
        waiting = [t.index for t in self.tasks if not t.ended]
        return [self._submit(Job(self._new_id(), task, TrialPurpose.BASELINE, None)) for task in waiting]

    def handle(self, event: Event) -> list[Command]:
        if self.ended:
            return []
        commands: list[Command] = []
        match event:
            case Built():
                commands += self._on_built(event)
            case Measured():
                commands += self._on_measured(event)
            case SlotUp():
                self._slots[event.slot] = None
            case SlotDown():
                commands += self._on_slot_down(event)
            case Stop():
                self.ended = True
                return [RunEnded(event.reason)]
            case _:
                assert_never(event)
        commands += self._advance()
        return commands

    # -- one event each

    def _on_built(self, event: Built) -> list[Command]:
        job, result = event.job, event.result
        self._building.pop(job.id, None)
        task = self.tasks[job.task]
        if task.ended:
            return []
        if result.artifact is None:
            if job.purpose is TrialPurpose.BASELINE:
                return self._give_up(task, f"the untuned function does not build: {result.text}")
            kind = result.failure or FailureKind.BUILD
            return [RecordTrial(job, None, result, None, kind, result.text), *self._failed(job, kind, result.text)]
        if job.purpose is TrialPurpose.BASELINE:
            task.reference = result.artifact
            if task.baseline_cost is not None:
                return []  # measured before the run was resumed
        self._ready.append(_Ready(job, result))
        return []

    def _on_measured(self, event: Measured) -> list[Command]:
        job, result = event.job, event.result
        held = self._slots.get(event.slot)
        if held is None or held.job.id != job.id:
            return []  # a late answer from a slot that was given up
        if result.failure is FailureKind.DEVICE_LOST:
            del self._slots[event.slot]  # it reports for work again when it has another device
            return self._retry_or_fail(held, event.slot, result.text)
        self._slots[event.slot] = None
        record = RecordTrial(job, event.slot, held.build, result, result.failure, result.text)
        task = self.tasks[job.task]
        if result.failure is not None:
            if job.purpose is TrialPurpose.BASELINE:
                return [record, *self._give_up(task, f"the untuned function fails: {result.text}")]
            return [record, *self._failed(job, result.failure, result.text)]
        self._succeeded(task, job, statistics.median(result.costs))
        return [record]

    def _on_slot_down(self, event: SlotDown) -> list[Command]:
        held = self._slots.pop(event.slot, None)
        return [] if held is None else self._retry_or_fail(held, event.slot, event.reason)

    def _retry_or_fail(self, held: _Ready, slot: int, reason: str) -> list[Command]:
        """Another device gets a job whose device vanished; a job that loses several is to blame itself."""
        job = held.job
        self._lost[job.id] += 1
        if self._lost[job.id] <= self.limits.lost_retries:
            self._ready.appendleft(held)
            return []
        text = f"the device was lost {self._lost[job.id]} times under this candidate: {reason}"
        kind = FailureKind.DEVICE_LOST
        if job.purpose is TrialPurpose.BASELINE:
            return self._give_up(self.tasks[job.task], text)
        return [RecordTrial(job, slot, held.build, None, kind, text), *self._failed(job, kind, text)]

    def _succeeded(self, task: TaskState, job: Job, cost: float) -> None:
        match job.purpose:
            case TrialPurpose.BASELINE:
                task.baseline_cost = cost
            case TrialPurpose.SEARCH:
                assert job.candidate is not None
                task.done += 1
                task.strategy.tell(job.candidate, cost)
                task.ranking.append((cost, job.candidate))
                task.ranking.sort(key=lambda entry: entry[0])
                del task.ranking[max(8, self.limits.finalists) :]
                if task.best_cost is None or cost < task.best_cost:
                    task.best_cost, task.best = cost, job.candidate
            case TrialPurpose.FINAL:
                assert job.candidate is not None
                task.final_costs.setdefault(job.candidate.digest, []).append(cost)
            case _:
                assert_never(job.purpose)

    def _failed(self, job: Job, kind: FailureKind, text: str) -> list[Command]:
        task = self.tasks[job.task]
        task.failures[kind] += 1
        task.first_failure = task.first_failure or text
        if job.purpose is not TrialPurpose.SEARCH or job.candidate is None:
            return []
        task.done += 1
        task.strategy.tell(job.candidate, None)
        alike = task.done >= self.limits.equal_failures and task.failures[kind] == task.done
        if alike:
            return self._give_up(
                task, f"the first {task.done} trials all failed with {kind}; the first one:\n{task.first_failure}"
            )
        return []

    # -- moving on

    def _advance(self) -> list[Command]:
        commands: list[Command] = []
        commands += self._feed_builders()
        commands += self._feed_slots()
        for task in self.tasks:
            commands += self._finish_if_done(task)
        if not self.ended and all(t.ended for t in self.tasks):
            self.ended = True
            commands.append(RunEnded("done"))
        return commands

    def _feed_builders(self) -> list[Command]:
        commands: list[Command] = []
        target = self.limits.builders + self.limits.build_ahead * max(1, len(self._slots))
        while len(self._building) + len(self._ready) < target:
            task = self._hungriest()
            if task is None:
                break
            candidates = task.strategy.ask(1)
            if not candidates:
                task.exhausted = True
                continue
            task.asked += 1
            commands.append(self._submit(Job(self._new_id(), task.index, TrialPurpose.SEARCH, candidates[0])))
        return commands

    def _hungriest(self) -> TaskState | None:
        """The task furthest from its budget, among those that may ask for more."""
        able = [t for t in self.tasks if self._may_ask(t)]
        return min(able, key=lambda t: t.asked, default=None)

    def _may_ask(self, task: TaskState) -> bool:
        begun = task.reference is not None and task.baseline_cost is not None
        return begun and not task.ended and not task.exhausted and task.asked < self.limits.trials

    def _feed_slots(self) -> list[Command]:
        commands: list[Command] = []
        for slot, held in list(self._slots.items()):
            if held is not None:
                continue
            while self._ready:
                ready = self._ready.popleft()
                task = self.tasks[ready.job.task]
                if task.ended:
                    continue
                assert ready.build.artifact is not None
                assert task.reference is not None
                self._slots[slot] = ready
                commands.append(SubmitMeasure(ready.job, slot, ready.build.artifact, task.reference))
                break
        return commands

    def _finish_if_done(self, task: TaskState) -> list[Command]:
        begun = task.reference is not None and task.baseline_cost is not None
        if task.ended or not begun or self._may_ask(task) or self.in_flight(task.index):
            return []
        if task.finals_left is None:
            finalists = [c for _, c in task.ranking[: self.limits.finalists]]
            task.finals_left = finalists * self.limits.final_rounds if len(finalists) > 1 else []
        if task.finals_left:
            # one at a time: finalists take turns, so a drift of the machine hits all of them
            candidate = task.finals_left.pop(0)
            return [self._submit(Job(self._new_id(), task.index, TrialPurpose.FINAL, candidate))]
        self._crown(task)
        task.ended = True
        return [TaskEnded(task.index, None)]

    def _crown(self, task: TaskState) -> None:
        """The best after the finals: lowest median, counting each finalist's search measurement too."""
        if not task.final_costs:
            return
        costs = {c.digest: ([cost, *task.final_costs.get(c.digest, [])], c) for cost, c in task.ranking}
        finalists = [(statistics.median(v), c) for d, (v, c) in costs.items() if d in task.final_costs]
        if finalists:
            task.best_cost, task.best = min(finalists, key=lambda entry: entry[0])

    def _give_up(self, task: TaskState, error: str) -> list[Command]:
        task.ended = True
        self._ready = deque(r for r in self._ready if r.job.task != task.index)
        return [TaskEnded(task.index, error)]

    def _submit(self, job: Job) -> SubmitBuild:
        self._building[job.id] = job
        return SubmitBuild(job)

    def _new_id(self) -> int:
        self._next_job += 1
        return self._next_job
