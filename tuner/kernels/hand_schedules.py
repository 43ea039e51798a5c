"""Schedules of a function that a person wrote.

They are measured as candidates, and recorded under the function's own key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from compiler.errors import TunefarmError
from compiler.schedule.core.schedule import Schedule
from compiler.target.target import Target
from compiler.tir.nodes import PrimFunc
from tuner.engine.plan import TaskSearch, trace_source
from tuner.errors import TuningError
from tuner.records.lookup.keys import candidate_digest
from tuner.search.base import Proposal, Recorded
from tuner.task import TuningTask


@dataclass(frozen=True)
class HandSchedules:
    """A kernel and its schedules by hand.

    `what` names a workload or is a function, and each of `schedules` changes a `Schedule` of it in place. All are
    measured. The fastest that computes the same becomes a config of the workload: `best` and builds use it where no
    other is faster.
    """

    what: str | PrimFunc
    schedules: tuple[Callable[[Schedule], object], ...]

    def task(self, target: Target) -> TuningTask:
        """The function's own task, whoever schedules it. Raises WorkloadError for an unknown name."""
        if isinstance(self.what, str):
            return TuningTask.from_spec(self.what, target)
        return TuningTask(str(self.what.attrs.get("global_symbol", "main")), self.what, target)

    def search(self, target: Target | str) -> TaskSearch:
        """A search that asks for each schedule once. Raises TuningError for one that cannot be applied."""
        task = self.task(Target(target).resolved())
        traces = (self._trace(task.func, schedule) for schedule in self.schedules)
        known = {candidate_digest(trace): trace for trace in traces}
        candidates = [Recorded(digest, trace) for digest, trace in known.items()]

        def recognise(digest: str, trace: str) -> Proposal | None:
            return Recorded(digest, trace) if digest in known else None

        return TaskSearch(task, GivenSearch(candidates), recognise, trace_source(task))

    def _trace(self, func: PrimFunc, schedule: Callable[[Schedule], object]) -> str:
        sch = Schedule(func)
        try:
            schedule(sch)
        except TunefarmError as error:
            raise TuningError(f"{_name(schedule)}: {error.message}", hint=error.hint) from error
        except Exception as error:  # the user's code: any error of it is theirs to read
            raise TuningError(f"{_name(schedule)}: {type(error).__name__}: {error}") from error
        return sch.trace.to_json()


class GivenSearch:
    """A strategy that asks for each of some candidates once, in their order."""

    def __init__(self, candidates: Sequence[Proposal]) -> None:
        self._left = {candidate.digest: candidate for candidate in candidates}

    def ask(self, count: int) -> Sequence[Proposal]:
        return [self._left.pop(digest) for digest in list(self._left)[:count]]

    def tell(self, candidate: Proposal, cost: float | None) -> None:
        self._left.pop(candidate.digest, None)


def _name(schedule: Callable[[Schedule], object]) -> str:
    return getattr(schedule, "__name__", "a schedule")
