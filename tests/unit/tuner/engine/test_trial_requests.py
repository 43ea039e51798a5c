"""The request that a device gets for a trial."""

from __future__ import annotations

from dataclasses import replace

import pytest

from compiler.artifact import Artifact
from compiler.driver.build import compile_artifact
from compiler.target.target import Target
from tests.kit.tuner.engine import Point
from tuner.engine.engine import measurement
from tuner.engine.events import Job, SubmitMeasure
from tuner.engine.options import RunOptions
from tuner.records.model import TrialPurpose
from tuner.rounding import Rounding
from tuner.task import TuningTask
from tuner.workloads import WorkloadSpec


@pytest.fixture(scope="module")
def untuned() -> Artifact:
    return compile_artifact(WorkloadSpec.parse("copy:64").prim_func(), Target("llvm").resolved(), name="main")


def asked(untuned: Artifact, purpose: TrialPurpose, flops: float) -> tuple[float, float]:
    """The time limits of the trial, and of the reference that its outputs are compared with."""
    job = Job(1, 0, purpose, None if purpose is TrialPurpose.BASELINE else Point("c"))  # type: ignore[arg-type]
    data = untuned.to_bytes()
    other = replace(untuned, meta={**untuned.meta, "made": "again"}).to_bytes()
    command = SubmitMeasure(job, 0, data if purpose is TrialPurpose.BASELINE else other, data)
    request, _ = measurement(command, Rounding(), RunOptions(run_timeout_s=10.0), flops)
    return request.timeout_s, request.reference_timeout_s


def test_untuned_code_has_more_time_than_candidates(untuned: Artifact) -> None:
    assert asked(untuned, TrialPurpose.SEARCH, flops=1e6) == (10.0, 60.0)
    assert asked(untuned, TrialPurpose.BASELINE, flops=1e6) == (60.0, 60.0)


def test_large_untuned_code_has_time_by_its_operations(untuned: Artifact) -> None:
    flops = 2.0 * 2048**3
    assert asked(untuned, TrialPurpose.SEARCH, flops) == (10.0, flops / 1e8)
    assert asked(untuned, TrialPurpose.BASELINE, flops) == (flops / 1e8, flops / 1e8)


def test_weights_of_a_model_are_read_from_memory(untuned: Artifact) -> None:
    job = Job(1, 0, TrialPurpose.BASELINE, None)
    command = SubmitMeasure(job, 0, untuned.to_bytes(), untuned.to_bytes())
    func = WorkloadSpec.parse("copy:64").prim_func()
    for noted, weights in (((), ()), ((0, 7, "w"), (0,))):
        task = TuningTask("copy", func.with_attr("layout_free_buffers", noted), Target("llvm"))
        assert measurement(command, Rounding(), RunOptions(), weights=task.weights)[0].cold == weights
