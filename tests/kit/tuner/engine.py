"""The engine's state machine with builders and devices played: events in, commands out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rpc_server.wire.trial_messages import MeasureResult
from tuner.build.process_builder import CandidateBuild
from tuner.engine.budget import BudgetLimits
from tuner.engine.events import Built, Claim, Claimed, Command, Job, JobMeasured, SlotUp, SubmitBuild, SubmitMeasure
from tuner.engine.state import EngineState
from tuner.engine.task_state import Plan


@dataclass(frozen=True)
class Point:
    """Stands where a Candidate stands: the state machine only looks at its digest."""

    digest: str
    trace_json: str = "[]"


class Listed:
    """A strategy that offers a fixed list."""

    def __init__(self, count: int) -> None:
        self.left = [Point(f"c{i}") for i in range(count)]
        self.told: list[tuple[str, float | None]] = []

    def ask(self, count: int) -> Sequence[Point]:
        taken, self.left = self.left[:count], self.left[count:]
        return taken

    def tell(self, candidate: Point, cost: float | None) -> None:
        self.told.append((candidate.digest, cost))


GOOD = CandidateBuild(b"object", None, "", 0.1)


def engine(
    tasks: int = 1, offered: int = 100, draft: Point | None = None, **limits: int
) -> tuple[EngineState, list[Listed]]:
    strategies = [Listed(offered) for _ in range(tasks)]
    plans = [Plan(s, draft=draft) for s in strategies]
    return EngineState(plans, BudgetLimits(**{"trials": 8, **limits})), strategies  # type: ignore[arg-type]


def of(commands: Sequence[Command], kind: type) -> list:
    return [c for c in commands if isinstance(c, kind)]


class Driver:
    """Plays builders and devices: every build succeeds, a measurement costs what `cost(job)` says."""

    def __init__(self, state: EngineState, slots: int = 1) -> None:
        self.state = state
        self.log: list[Command] = []
        self.pending: list[Command] = list(state.start())
        self.log += self.pending
        for slot in range(slots):
            self.send(SlotUp(slot))

    def send(self, event) -> list[Command]:
        commands = self.state.handle(event)
        self.log += commands
        self.pending += commands
        return commands

    def cost(self, job: Job) -> MeasureResult:
        if job.candidate is None:
            return MeasureResult(costs=(1.0,))
        return MeasureResult(costs=(0.5 + int(job.candidate.digest[1:]) / 1000,))

    def run(self, limit: int = 10_000) -> None:
        for _ in range(limit):
            if self.state.ended or not self.pending:
                return
            self.step()

    def step(self) -> None:
        """Answer one command."""
        match self.pending.pop(0):
            case Claim(job):
                self.send(Claimed(job))
            case SubmitBuild(job):
                self.send(Built(job, GOOD))
            case SubmitMeasure(job, slot):
                self.send(JobMeasured(job, slot, self.cost(job)))
