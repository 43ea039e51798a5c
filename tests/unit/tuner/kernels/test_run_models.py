"""What runs of models are called."""

from types import SimpleNamespace
from typing import Any, cast

from tuner.kernels.run_models import run_title
from tuner.records.model import Run


def run(records: list[dict[str, Any]], *names: str) -> Run:
    tasks = [SimpleNamespace(workload=SimpleNamespace(name=name)) for name in names]
    return cast(Run, cast(Any, SimpleNamespace(options={"workloads": records}, tasks=tasks)))


def test_the_kernels_of_a_model_are_counted_and_others_named() -> None:
    stored = {"model": "net", "version": "d", "workload": "w"}
    records = [{"op": "matmul"}, stored, stored, {"file": "/models/other.onnx"}]
    assert run_title(run(records, "matmul", "conv", "dense", "softmax")) == "matmul, net (2 kernels), softmax"
    assert run_title(run([], "matmul", "of a family")) == "matmul, of a family"
