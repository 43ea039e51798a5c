"""The engine's trials as the faces report them: each search trial once, with its result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from tuner.engine.progress import NoWatcher, TrialDone
from tuner.faces.common.engine import RememberedResults
from tuner.records.model import TrialPurpose
from tuner.search.base import Proposal

Told: TypeAlias = Callable[[int, Proposal, TrialDone], None]
"""What a face does with a trial: it gets the task's place, the candidate and the trial."""


class SearchTrials(NoWatcher):
    """Hands each search trial to `then`, and marks its candidate as measured by this run.
    `searches` has one a task."""

    def __init__(self, then: Told, searches: Sequence[RememberedResults] = ()) -> None:
        self._then = then
        self._searches = searches
        self._finals: dict[tuple[int, str], tuple[Proposal, TrialDone]] = {}

    def trial(self, done: TrialDone) -> None:
        if done.candidate is None:
            return
        match done.purpose:
            case TrialPurpose.SEARCH:
                if self._searches:
                    self._searches[done.task].measured(done.candidate)
                self._then(done.task, done.candidate, done)
            case TrialPurpose.FINAL if done.failure is None or done.failure.is_of_kernel:
                finalist = done.task, done.candidate.digest
                before = self._finals[finalist][1].samples if finalist in self._finals else ()
                self._finals[finalist] = done.candidate, replace(done, samples=(*before, *done.samples))

    def tell_finals(self) -> None:
        """Hand on the finals' measurements: one trial for each finalist, with all its samples.
        One that failed there has its failure."""
        for candidate, done in self._finals.values():
            self._then(done.task, candidate, done)
