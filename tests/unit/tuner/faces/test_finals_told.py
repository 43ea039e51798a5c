"""The finals as a face tells them to its user: each finalist once, with its samples there or its failure."""

from __future__ import annotations

from rpc_server.wire.trial_messages import FailureKind
from tests.kit.tuner.engine import Point
from tuner.engine.progress import TrialDone
from tuner.faces.common.trials import SearchTrials
from tuner.records.model import TrialPurpose


def done(
    digest: str, *samples: float, purpose: TrialPurpose = TrialPurpose.FINAL, failure: FailureKind | None = None
) -> TrialDone:
    return TrialDone(
        task=0, purpose=purpose, candidate=Point(digest), samples=samples, cost=samples[0] if samples else None,
        failure=failure, text="" if failure is None else "it says so", build_s=0.0, measure_s=0.0, device="d", noise=(),
        timestamp=0.0,
    )  # fmt: skip


def told(*trials: TrialDone) -> list[tuple[str, tuple[float, ...], FailureKind | None]]:
    """Return what is told after the run."""
    found: list[tuple[str, tuple[float, ...], FailureKind | None]] = []
    watcher = SearchTrials(lambda _, candidate, trial: found.append((candidate.digest, trial.samples, trial.failure)))
    for trial in trials:
        watcher.trial(trial)
    found.clear()
    watcher.tell_finals()
    return found


def test_a_finalist_has_all_samples_of_its_turns() -> None:
    assert told(done("a", 3.0, purpose=TrialPurpose.SEARCH), done("a", 1.0), done("b", 2.0), done("a", 1.5)) == [
        ("a", (1.0, 1.5), None),
        ("b", (2.0,), None),
    ]


def test_one_that_failed_after_a_turn_has_its_failure() -> None:
    found = told(done("a", 1.0), done("b", 2.0), done("a", failure=FailureKind.WRONG_RESULT))
    assert [(digest, failure) for digest, _, failure in found] == [("a", FailureKind.WRONG_RESULT), ("b", None)]


def test_a_box_that_was_lost_says_nothing_of_the_kernel() -> None:
    assert told(done("a", 1.0), done("a", failure=FailureKind.DEVICE_LOST)) == [("a", (1.0,), None)]
