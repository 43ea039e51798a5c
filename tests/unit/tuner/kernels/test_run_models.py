"""The names of runs of models, and the models' state."""

from types import SimpleNamespace
from typing import Any, cast

from tuner.kernels.run_models import model_progress, run_title
from tuner.records.model import Improvement, Run, RunState


def run(records: list[dict[str, Any]], *names: str) -> Run:
    tasks = [SimpleNamespace(workload=SimpleNamespace(name=name)) for name in names]
    return cast(Run, cast(Any, SimpleNamespace(options={"workloads": records}, tasks=tasks)))


def test_the_kernels_of_a_model_are_counted_and_others_named() -> None:
    stored = {"model": "net", "version": "d", "workload": "w"}
    records = [{"op": "matmul"}, stored, stored, {"file": "/models/other.onnx"}]
    assert run_title(run(records, "matmul", "conv", "dense", "softmax")) == "matmul, net (2 kernels), softmax"
    assert run_title(run([], "matmul", "of a family")) == "matmul, of a family"


def test_the_time_of_a_model_does_not_rise_while_its_run_goes_on() -> None:
    def best(state: RunState, *costs: float) -> float | None:
        tasks = [
            SimpleNamespace(position=at, baseline_cost=1.0, best_cost=cost, trials=4) for at, cost in enumerate(costs)
        ]
        records = [{"model": "net", "weight": 2}, {"model": "net"}]
        made = cast(Run, cast(Any, SimpleNamespace(options={"workloads": records}, tasks=tasks, state=state)))
        found = (Improvement(1, 0, 0.25), Improvement(2, 1, 0.5), Improvement(3, 0, 0.125))
        (net,) = model_progress(made, found)
        return net.best

    assert best(RunState.RUNNING, 0.125, 0.5) == 0.75
    assert best(RunState.RUNNING, 0.25, 0.5) == 0.75  # the first kernel's finals are over
    assert best(RunState.FINISHED, 0.25, 0.5) == 1.0
