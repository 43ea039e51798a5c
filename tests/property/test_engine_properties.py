"""The engine's state machine in random worlds: builds fail, devices come and go, other runs share the store.

Whatever happens: no candidate is lost, none is measured twice unless its device vanished, no device idles while there
is work, and the run ends.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rpc_server.wire.trial_messages import FailureKind, MeasureResult
from tests.kit.fuzzing import examples
from tuner.build.worker import CandidateBuild
from tuner.engine.budget import BudgetLimits
from tuner.engine.events import (
    Built,
    Claim,
    Claimed,
    Command,
    EngineTick,
    Event,
    Job,
    JobMeasured,
    Known,
    LeaveSlot,
    RecordTrial,
    RunEnded,
    SlotDown,
    SlotUp,
    SubmitBuild,
    SubmitMeasure,
    Taken,
    TaskEnded,
)
from tuner.engine.scheduling import Policy
from tuner.engine.state import EngineState
from tuner.engine.task_state import Plan
from tuner.records.model import TrialPurpose


@dataclass(frozen=True)
class Point:
    digest: str
    trace_json: str = "[]"


class Listed:
    """A strategy that offers a fixed list."""

    def __init__(self, task: int, count: int) -> None:
        self.left = [Point(f"{task}:{i}") for i in range(count)]
        self.told: Counter[str] = Counter()

    def ask(self, count: int) -> Sequence[Point]:
        taken, self.left = self.left[:count], self.left[count:]
        return taken

    def tell(self, candidate: Point, cost: float | None) -> None:
        self.told[candidate.digest] += 1


@dataclass(frozen=True)
class Shape:
    """A kind of world: sizes, budgets, and how likely things go wrong."""

    seed: int
    tasks: int = 1
    offered: int = 30
    slots: int = 1
    trials: int = 10
    total: int = 0
    seconds: float = 0.0
    early: int = 0
    policy: Policy = Policy.GRADIENT
    bad_builds: float = 0.0
    bad_runs: float = 0.0
    losses: float = 0.0
    known: float = 0.0
    taken: float = 0.0
    cores: int = 0  # that devices and builders share; kernels have two threads
    quiet_from: float = 0.0


shapes = st.builds(
    Shape,
    seed=st.integers(0, 2**32),
    tasks=st.integers(1, 4),
    offered=st.integers(0, 40),
    slots=st.integers(1, 6),
    trials=st.integers(1, 25),
    total=st.sampled_from([0, 0, 7, 30]),
    seconds=st.sampled_from([0.0, 0.0, 5.0, 40.0]),
    early=st.sampled_from([0, 0, 4]),
    policy=st.sampled_from(list(Policy)),
    bad_builds=st.sampled_from([0.0, 0.1, 0.9, 1.0]),
    bad_runs=st.sampled_from([0.0, 0.2, 1.0]),
    losses=st.sampled_from([0.0, 0.1, 0.4]),
    known=st.sampled_from([0.0, 0.3, 1.0]),
    taken=st.sampled_from([0.0, 0.3]),
    cores=st.sampled_from([0, 0, 2]),
    quiet_from=st.sampled_from([0.0, 0.0, 0.75]),
)


@dataclass
class World:
    shape: Shape
    rng: random.Random = field(init=False)
    state: EngineState = field(init=False)
    strategies: list[Listed] = field(init=False)
    log: list[Command] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)  # on their way
    slots: dict[int, list[Job]] = field(default_factory=dict)
    begun: Counter[int] = field(default_factory=Counter)  # by job
    absent: set[int] = field(default_factory=set)
    now: float = 0.0

    def __post_init__(self) -> None:
        shape = self.shape
        self.rng = random.Random(shape.seed)
        self.strategies = [Listed(i, shape.offered) for i in range(shape.tasks)]
        limits = BudgetLimits(
            trials=shape.trials,
            total_trials=shape.total,
            seconds=shape.seconds,
            early_stopping=shape.early,
            policy=shape.policy,
            quiet_from=shape.quiet_from,
        )
        self.state = EngineState([Plan(s, threads=2) for s in self.strategies], limits)

    def run(self, steps: int = 20_000) -> None:
        self.take(self.state.start())
        for slot in range(self.shape.slots):
            self.tell(SlotUp(slot, self.shape.cores))
        for _ in range(steps):
            if self.state.ended:
                return
            self.tell(self.next_event())
        pytest.fail(f"the run does not end: {self.shape}")

    def next_event(self) -> Event:
        self.now += 0.1
        if self.absent and self.rng.random() < 0.3:
            return SlotUp(self.absent.pop(), self.shape.cores)
        if not self.events or self.rng.random() < 0.1:
            gone = self.absent and not self.events
            return SlotUp(self.absent.pop(), self.shape.cores) if gone else EngineTick(self.now)
        return self.events.pop(self.rng.randrange(len(self.events)))

    def tell(self, event: Event) -> None:
        match event:
            case SlotUp(slot):
                self.slots[slot] = []
            case SlotDown(slot) | JobMeasured(_, slot, _):
                held = self.slots.get(slot)
                if not held:
                    return
                if isinstance(event, SlotDown) or event.result.failure is FailureKind.DEVICE_LOST:
                    del self.slots[slot]
                    self.absent.add(slot)
                else:
                    held.pop(0)
                    self.begin(slot)
        self.take(self.state.handle(event))
        self.check_busy()

    def begin(self, slot: int) -> None:
        """The slot's device starts with what is first in its hands."""
        if held := self.slots[slot]:
            self.begun[held[0].id] += 1
            self.events.append(self.measure(held[0], slot))

    def take(self, commands: Sequence[Command]) -> None:
        self.log += commands
        for command in commands:
            match command:
                case Claim(job):
                    self.events.append(self.claim(job))
                case SubmitBuild(job):
                    self.events.append(Built(job, self.build(job)))
                case SubmitMeasure(job, slot):
                    self.slots[slot].append(job)
                    assert len(self.slots[slot]) <= 2, "a slot holds more than one job at hand"
                    if len(self.slots[slot]) == 1:
                        self.begin(slot)
                case _:
                    pass

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def claim(self, job: Job) -> Event:
        if self.chance(self.shape.taken):
            return Taken(job)
        if self.chance(self.shape.known):
            failed = self.chance(0.2)
            return Known(job, None if failed else 0.7, FailureKind.CRASH if failed else None)
        return Claimed(job)

    def build(self, job: Job) -> CandidateBuild:
        if job.candidate is not None and self.chance(self.shape.bad_builds):
            return CandidateBuild(None, FailureKind.BUILD, "no", 0.1)
        return CandidateBuild(b"object", None, "", 0.1)

    def measure(self, job: Job, slot: int) -> Event:
        if self.chance(self.shape.losses):
            if self.chance(0.5):
                return SlotDown(slot, "gone")
            return JobMeasured(job, slot, MeasureResult(failure=FailureKind.DEVICE_LOST, text="gone"))
        if job.candidate is not None and self.chance(self.shape.bad_runs):
            return JobMeasured(job, slot, MeasureResult(failure=FailureKind.CRASH, text="bang"))
        return JobMeasured(job, slot, MeasureResult(costs=(self.rng.uniform(0.5, 2.0),), elapsed_s=0.1))

    def check_busy(self) -> None:
        """A device idles only when nothing is built that it could measure, and the builders are at it."""
        if self.shape.cores:
            self.check_turns()
            return
        if self.state.ended or all(self.slots.values()):
            return
        begun = [task.begun for task in self.state.tasks]
        idle = [r for r in self.state.jobs.ready if r.job.purpose is TrialPurpose.SEARCH and begun[r.job.task]]
        assert not idle, "a built candidate waits beside an idle device"
        may_ask = [t for t in self.state.tasks if self.state._may_ask(t)]
        to_come = self.state.jobs.to_come
        assert not may_ask or to_come >= self.state.limits.builders, "builders idle beside an idle device"

    def check_turns(self) -> None:
        """Nothing is built beside a measurement, but for what another run had, what was begun without a device, or
        before it is to be quiet."""
        if self.shape.losses or self.shape.taken or self.shape.quiet_from:
            return
        measured = [job for held in self.slots.values() for job in held if job.purpose is not TrialPurpose.BASELINE]
        assert not measured or not self.state.jobs.building, "a kernel is measured beside a build"


@settings(max_examples=examples(60))
@given(shapes)
def test_random_worlds(shape: Shape) -> None:
    world = World(shape)
    world.run()
    ends: Counter[str] = Counter()
    asked = {c.job.candidate.digest for c in world.log if isinstance(c, Claim)}
    built = {c.job.candidate.digest for c in world.log if isinstance(c, SubmitBuild) and is_search(c.job)}
    for command in world.log:
        if isinstance(command, RecordTrial | LeaveSlot) and is_search(command.job):
            ends[command.job.candidate.digest] += 1
    # none lost: what was built was recorded or released, once; but a task that gives up waits for nothing
    assert set(ends.values()) <= {1}
    gave_up = {c.task for c in world.log if isinstance(c, TaskEnded) and c.error}
    left = {job.candidate.digest for job in world.state.jobs.under_way() if is_search(job) and job.task in gave_up}
    assert built - left <= set(ends) <= asked
    # none measured twice, but where the device vanished
    starts = Counter(c.job.candidate.digest for c in world.log if isinstance(c, SubmitMeasure) and is_search(c.job))
    if not shape.losses:
        assert set(starts.values()) <= {1}
    assert max(world.begun.values(), default=0) <= 1 + world.state.limits.lost_retries
    # the search hears of each candidate at most once, and within the budget
    for strategy, task in zip(world.strategies, world.state.tasks):
        assert set(strategy.told.values()) <= {1}
        assert task.done <= shape.trials
        assert task.done == task.asked or task.ended
    assert not shape.total or sum(t.done for t in world.state.tasks) <= shape.total
    # every task ends once, and the run last
    assert Counter(c.task for c in world.log if isinstance(c, TaskEnded)) == Counter(range(shape.tasks))
    assert world.log[-1] == RunEnded("done")


def is_search(job: Job) -> bool:
    return job.purpose is TrialPurpose.SEARCH
