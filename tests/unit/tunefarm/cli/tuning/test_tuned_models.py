"""`tunefarm tune` gives back records in the store when a tuned model is slower than the untuned one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from compiler import hooks
from compiler.driver.kernel_schedules import asked
from compiler.schedule.core.schedule import Schedule
from compiler.target.target import Target
from tests.kit.tuner.made_up_devices import SlowerThanTheFirst
from tunefarm.cli.tuning.tuned_models import guard_models
from tuner.devices.supplies import local_target
from tuner.engine.options import RunOptions
from tuner.engine.run_recorder import write_down
from tuner.faces.kernel_schedules import KERNEL_SCHEDULES, draft_of
from tuner.kernels.jobs import read_job
from tuner.kernels.model_version import model_source, plan_of, version_of
from tuner.kernels.stored import stored_record
from tuner.records.lookup.keys import candidate_digest
from tuner.records.model import NewDevice, NewTrial, Run, RunState, TrialPurpose
from tuner.records.store import RecordStore
from tuner.task import TuningTask

HERE = local_target()


@pytest.fixture
def model(tmp_path: Path) -> Path:
    weight = numpy_helper.from_array(np.full((96, 64), 0.5, "float32"), "w")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Relu", ["m"], ["y"])]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [64, s]) for n, s in (("x", 96), ("y", 64))]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [weight])
    path = tmp_path / "layer.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def run_of(store: RecordStore, model: Path, options: RunOptions, state: RunState = RunState.FINISHED) -> Run:
    """A run that measured the draft of the model's kernel, and a bad schedule with too good a time."""
    [kernel] = plan_of(model_source(str(model))).kernels
    target = Target(HERE)
    run = write_down(store, [TuningTask(kernel.name, kernel.func, target)], options, "tunefarm tune")
    device = store.devices.upsert(
        NewDevice(name="here", key="cpu", device_class="class", fingerprint={}, features=tuple(target.features))
    )
    bad, draft = Schedule(kernel.func), draft_of(kernel.func, target)
    bad.split(bad.get_loops(bad.get_child_blocks(bad.get_block("root"))[0])[0], [None, 4])
    assert draft is not None
    for trace, seconds in ((draft.to_json(), 1e-3), (bad.trace.to_json(), 1e-6)):
        store.trials.add(
            NewTrial(
                task_id=run.tasks[0].id, device_id=device.id, digest=candidate_digest(trace), trace=trace,
                samples=(seconds,) * 3, verified=True, purpose=TrialPurpose.FINAL,
            )
        )  # fmt: skip
    store.runs.set_state(run.id, state)
    return store.runs.get(run.id)


def served(store: RecordStore, model: Path) -> bool:
    """Whether what the store serves for the model's kernel is its draft."""
    [kernel] = plan_of(model_source(str(model))).kernels
    config, draft = store.best.look_up(kernel.key, HERE, "class").config, draft_of(kernel.func, Target(HERE))
    assert config is not None
    assert draft is not None
    return config.trace == draft.to_json()


@pytest.mark.parametrize("where", ["a file", "the store"])
def test_a_falsely_fast_config_is_given_back(
    model: Path, tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hooks, "_named", {})  # of a process that imported what it needs, and no more
    with RecordStore.open(str(tmp_path / "records.db"), create=True) as store:
        records = read_job([str(model)]).records
        if where == "the store":
            version = store.models.register(version_of(model_source(str(model))))
            store.models.add_part(version.id, 0, model.read_bytes())
            version = store.models.version_of(store.models.find("layer").id)
            records = tuple(stored_record(version, task) for task in store.models.tasks(version.id))
        options = RunOptions(trials=2, target=HERE, workloads=records)
        run = run_of(store, model, options)
        assert not served(store, model)
        fleet = SlowerThanTheFirst([name for k in plan_of(model_source(str(model))).kernels for name in k.names])
        found = guard_models(store, run, options, fleet)
        assert asked() is KERNEL_SCHEDULES
        assert served(store, model)
        assert [guard.to_json()["given_back"] for guard in found.values()] == [
            [kernel.name for kernel in plan_of(model_source(str(model))).kernels]
        ]
        assert list(found) == ["layer"]
        assert "keeps its untuned schedule" in found["layer"].text()
        assert store.runs.get(run.id).tasks[0].best_cost == 1e-3
        assert guard_models(store, run, options, fleet) == {}  # the tuned model is the untuned one now


def test_runs_that_did_not_finish_are_not_compared(model: Path, tmp_path: Path) -> None:
    with RecordStore.open(str(tmp_path / "records.db"), create=True) as store:
        options = RunOptions(trials=2, target=HERE, workloads=read_job([str(model)]).records)
        fleet = SlowerThanTheFirst([])
        assert guard_models(store, run_of(store, model, options, RunState.INTERRUPTED), options, fleet) == {}
        assert fleet.runs == 0
