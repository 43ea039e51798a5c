"""The finals of a task, turn by turn: what is built, what is measured next, and on which device. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.build.process_builder import CandidateBuild
from tuner.engine.events import Job
from tuner.engine.jobs import Jobs, Ready, Slots
from tuner.engine.task_state import Finals, TaskState
from tuner.records.model import TrialPurpose

LONGEST_CLOSING_S = 10.0
"""An untuned function that takes longer is not timed again at the end: that one call would be most of many a run."""


def begin(task: TaskState, jobs: Jobs, finalists: int, rounds: int) -> list[Job]:
    """Choose the finalists. Returns jobs to build those whose build is no longer at hand."""
    chosen = task.finalists(finalists)
    missing = [candidate for candidate in chosen if candidate.digest not in task.builds]
    task.finals = Finals.of(chosen, rounds)
    task.finals.building = {candidate.digest for candidate in missing}
    return [jobs.new(task.index, TrialPurpose.FINAL, candidate) for candidate in missing]


def next_turn(task: TaskState, jobs: Jobs, device_seen: bool) -> bool:
    """Prepare the next measurement: a finalist's, and at last the untuned build's.
    False when there is none, or when running ones decide whose it is."""
    finals = task.finals
    assert finals is not None
    candidate = finals.next_turn()
    if candidate is not None:
        jobs.put_first(Ready(jobs.new(task.index, TrialPurpose.FINAL, candidate), task.builds[candidate.digest]))
        return True
    if finals.are_over and not finals.closing and task.reference is not None and device_seen and _is_short(task):
        finals.closing = True
        job = jobs.new(task.index, TrialPurpose.BASELINE, None)
        jobs.put_first(Ready(job, CandidateBuild(task.reference, None, "", 0.0)))
        return True
    return False


def _is_short(task: TaskState) -> bool:
    return task.baseline_cost is None or task.baseline_cost <= LONGEST_CLOSING_S


def on_its_device(finals: Finals, slot: int, slots: Slots) -> bool:
    """Keep finals on one device while it is there, because others are slightly faster or slower."""
    if finals.slot not in slots:
        finals.slot = slot
    return finals.slot == slot


def built(task: TaskState, job: Job, result: CandidateBuild) -> None:
    """A finalist can be measured."""
    finals, digest = _held(task, job)
    finals.building.discard(digest)
    task.builds[digest] = result


def measured(task: TaskState, job: Job, samples: Sequence[float]) -> None:
    """Its turn is over."""
    finals, digest = _held(task, job)
    finals.measured(digest, samples)


def failed(task: TaskState, job: Job) -> None:
    """It has no further turn."""
    finals, digest = _held(task, job)
    finals.building.discard(digest)
    finals.drop(digest)


def _held(task: TaskState, job: Job) -> tuple[Finals, str]:
    assert task.finals is not None
    assert job.candidate is not None
    return task.finals, job.candidate.digest
