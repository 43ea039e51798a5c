"""A trial uses as many threads as its target has cores, and leaves the process as it was."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import rpc_server.executor.trial as trial
from compiler.artifact import Artifact
from compiler.driver.build import compile_artifact
from compiler.runtime.core import threads
from compiler.target.target import Target
from rpc_server.wire.messages import Measured
from rpc_server.wire.trial_messages import EvaluatorOptions, MeasureRequest
from tuner.workloads import WorkloadSpec


@pytest.fixture(autouse=True)
def _three_threads() -> Iterator[None]:
    before = threads.num_threads()
    threads.set_num_threads(3)
    yield
    threads.set_num_threads(before)


def built(cores: str) -> Artifact:
    func = WorkloadSpec.parse("matmul:8,8,8").prim_func()
    return compile_artifact(func, Target(f"{Target.host()}{cores}"), name="main")


@pytest.mark.parametrize(
    ("cores", "used"), [(" -num-cores=1", 1), (" -num-cores=2", 2), (" -num-cores=8", 3), (" -num-cores=0", 3), ("", 3)]
)
@pytest.mark.parametrize("fails", [False, True])
def test_as_many_as_the_target_has_cores(
    cores: str, used: int, fails: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    artifact, seen = built(cores), []
    plain = trial._call

    def call(ready: trial.Subject) -> trial._FirstRun:
        seen.append(threads.num_threads())
        if fails:
            raise MemoryError
        return plain(ready)

    monkeypatch.setattr(trial, "_call", call)
    trials = trial.Trials(str(tmp_path), lambda _: memoryview(artifact.to_bytes()), lambda *_: None)
    options = EvaluatorOptions(number=1, repeat=1, min_repeat_ms=0)
    answer = trials.run(MeasureRequest(artifact=artifact.digest, seed=0, options=options, timeout_s=60.0))
    assert isinstance(answer, Measured)
    assert (answer.result.failure is not None) == fails
    assert seen == [used]
    assert threads.num_threads() == 3
