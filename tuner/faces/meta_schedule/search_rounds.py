"""A search that a program drives itself: candidates are asked for a round at a time, and their times told."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean

from compiler.errors import ScheduleError
from compiler.faces.tir_schedule.schedule import Schedule as FaceSchedule
from compiler.ir.module import IRModule
from compiler.schedule.core.trace import Trace
from tuner.faces.meta_schedule.record import ArgInfo, MeasureCandidate
from tuner.faces.meta_schedule.runner import RunnerResult
from tuner.search.base import Candidate, Proposal, SearchStrategy


class SearchRounds:
    """At most `max_trials` candidates of an engine's search, `num_trials_per_iter` a round."""

    def __init__(
        self, mod: IRModule, search: SearchStrategy, max_trials: int, num_trials_per_iter: int, max_fail_count: int
    ) -> None:
        self._mod, self._search, self._left = mod, search, max_trials
        self._round, self._most_failures = num_trials_per_iter, max_fail_count
        self._args = tuple(ArgInfo.from_entry_func(mod))
        self._asked: dict[int, Proposal] = {}
        self._given: list[MeasureCandidate] = []

    def ask(self) -> list[MeasureCandidate] | None:
        """Return the next round's candidates; None where there are no more."""
        wanted, failures = min(self._round, self._left), 0
        found: list[MeasureCandidate] = []
        while len(found) < wanted and failures <= self._most_failures:
            proposals = self._search.ask(wanted - len(found))
            if not proposals:
                break
            for proposal in proposals:
                try:
                    sch = FaceSchedule.replay(self._mod, Trace.from_json(proposal.trace_json))
                except ScheduleError:  # a point of the space that does not work out
                    failures += 1
                    self._search.tell(proposal, None)
                    continue
                candidate = MeasureCandidate(sch, self._args)
                self._asked[id(candidate)] = proposal
                self._given.append(candidate)
                found.append(candidate)
        self._left -= len(found)
        return found or None

    def tell(self, candidates: Sequence[MeasureCandidate], results: Sequence[RunnerResult]) -> None:
        """Let the search learn from a round. Candidates that were not asked for are left out."""
        for candidate, result in zip(candidates, results):
            proposal = self._asked.pop(id(candidate), None)
            if isinstance(proposal, Candidate):
                self._search.tell(proposal, mean(map(float, result.run_secs)) if result.run_secs else None)
