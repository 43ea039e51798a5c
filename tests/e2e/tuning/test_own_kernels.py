"""Kernels of one's own tuned for real: built in workers, measured in an isolated process, checked, recorded."""

from __future__ import annotations

import pytest

from rpc_server.wire.trial_messages import FailureKind
from tests.kit.tuner import byok_kernels
from tuner.devices.supplies import LocalFleet
from tuner.engine.engine import tune
from tuner.engine.options import RunOptions
from tuner.kernels.csource import Argument, CSource
from tuner.kernels.kernel import CKernel, FunctionKernel, kernel_search
from tuner.kernels.python_source import PythonSource
from tuner.kernels.space import KernelSpace, config_of
from tuner.records.store import RecordStore

PATIENT = {"build_timeout_s": 120.0, "run_timeout_s": 120.0}  # the machine may be busy
OPTIONS = RunOptions(trials=8, samples=2, max_samples=2, sample_ms=2, builders=2, equal_failures=20, **PATIENT)


def run(tmp_path, kernel):
    fleet = LocalFleet()
    try:
        with RecordStore.open(tmp_path / "records.db", create=True) as store:
            outcome = tune([kernel_search(kernel, fleet.target(), seed=1)], fleet=fleet, options=OPTIONS, store=store)
            (run,) = store.runs.newest()
            return outcome, list(store.trials.all(run.id)), store.runs.failures(run.id)
    finally:
        fleet.close()


def test_a_function_of_configs(tmp_path):
    space = KernelSpace({"LANES": [4, 8, 16, 32], "WRONG": [0, 1]})
    kernel = FunctionKernel("scaled", byok_kernels.make_scaled, space, byok_kernels.scaled())
    outcome, trials, failures = run(tmp_path, kernel)
    (best,) = outcome.best
    assert best is not None
    assert config_of(best.candidate.trace_json)["WRONG"] == 0
    assert {f.kind: f.count for f in failures} == {FailureKind.WRONG_RESULT: 4}
    assert sum(t.purpose == "search" for t in trials) == 8


@pytest.mark.parametrize("rival", ["", "def plain(x, y, out):\n    return 2 * x + y\n"], ids=["", "numpy"])
def test_c_source_and_the_users_compiler(tmp_path, rival):
    vector = (4096,)
    arguments = (
        Argument("x", "float32", vector), Argument("y", "float32", vector), Argument("out", "float32", vector, True),
    )  # fmt: skip
    source = CSource(byok_kernels.SAXPY, "saxpy", arguments, "cc -O3")
    plain = PythonSource(rival, "plain", arguments) if rival else None
    space = KernelSpace({"UNROLL": [1, 2, 4, 8], "SCALE": [2, 3]})
    kernel = CKernel("saxpy", source, space, {"UNROLL": 1, "SCALE": 2}, rival=plain)
    outcome, trials, failures = run(tmp_path, kernel)
    (best,) = outcome.best
    assert best is not None
    assert config_of(best.candidate.trace_json)["SCALE"] == 2
    assert {f.kind: f.count for f in failures} == {FailureKind.WRONG_RESULT: 4}
    assert trials[0].purpose == "baseline"
    assert trials[0].cost is not None
