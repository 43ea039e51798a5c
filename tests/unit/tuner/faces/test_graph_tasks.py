"""Kernels of a graph as tasks of auto_scheduler, and builds that use their records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tunefarm as tvm
from compiler.driver import kernel_schedules
from tunefarm import auto_scheduler, relay
from tunefarm.contrib import graph_executor
from tunefarm.relay import testing
from tuner.faces import kernel_schedules as schedules_of_builds
from tuner.faces.auto_scheduler.state import State

TARGET = tvm.target.Target("llvm -num-cores=1")
RANDOM = np.random.default_rng(0)
DATA = RANDOM.random((1, 8, 14, 14), "float32")
PARAMS = {"w": RANDOM.random((16, 8, 3, 3), "float32"), "b": RANDOM.random((16,), "float32")}


def network() -> Any:
    x, w, b = (relay.var(name, shape=shape) for name, shape in
               (("data", (1, 8, 14, 14)), ("w", (16, 8, 3, 3)), ("b", (16,))))  # fmt: skip
    conv = relay.nn.conv2d(x, w, padding=(1, 1), channels=16, kernel_size=(3, 3))
    return tvm.IRModule.from_expr(relay.Function([x, w, b], relay.nn.relu(relay.nn.bias_add(conv, b))))


def test_a_kernel_is_a_task() -> None:
    (task,), weights = auto_scheduler.extract_tasks(network()["main"], PARAMS, TARGET)
    assert weights == [1]
    assert {"data", "pad_temp", "conv2d_nchw", "T_relu"} <= {op.name for op in task.compute_dag.ops}
    assert "conv2d_nchw(nn, ff, yy, xx) += (pad_temp[nn, rc, (yy + ry), (xx + rx)]*" in str(task.compute_dag)
    assert task.compute_dag.flop_ct > 2 * 14 * 14 * 16 * 8 * 9
    assert "conv2d" in task.desc
    again = auto_scheduler.SearchTask(workload_key=task.workload_key, target=TARGET)
    assert again.compute_dag.func is task.compute_dag.func


def test_options(tmp_path: Path) -> None:
    mod, params = testing.mlp.get_workload(batch_size=4)
    log = tmp_path / "dag.json"
    tasks, weights = auto_scheduler.extract_tasks(mod, params, "llvm", dump_workload_to_dag_log=log)
    assert len(tasks) == len(weights) == 3
    assert json.loads(log.read_text()) == {task.workload_key: str(task.compute_dag) for task in tasks}
    more, _ = auto_scheduler.extract_tasks(mod, params, "llvm", include_simple_tasks=True)
    assert {task.workload_key for task in tasks} <= {task.workload_key for task in more}


def test_graphs_of_relax_have_tasks_too() -> None:
    mod = relay.to_relax(network(), PARAMS)
    (task,), _ = auto_scheduler.extract_tasks(mod, None, TARGET)
    ((same,), _) = auto_scheduler.extract_tasks(network(), PARAMS, TARGET)
    assert task.workload_key == same.workload_key


def test_a_build_uses_the_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (task,), _ = auto_scheduler.extract_tasks(network(), PARAMS, TARGET)
    sch = tvm.tir.Schedule(task.compute_dag.func)
    sch.parallel(sch.get_loops("T_relu")[1])
    log = str(tmp_path / "log.json")
    inp = auto_scheduler.MeasureInput(task, State(task.compute_dag.func, sch.trace))
    auto_scheduler.save_records(log, [inp], [auto_scheduler.MeasureResult((1e-3,), 0, "", 1.0, 0.0)])
    found: list[Any] = []
    ask = schedules_of_builds.recorded_schedule
    monkeypatch.setattr(schedules_of_builds, "recorded_schedule", lambda *a: found.append(ask(*a)) or found[-1])
    options = {"relay.backend.use_auto_scheduler": True}
    with auto_scheduler.ApplyHistoryBest(log), tvm.transform.PassContext(config=options):
        library = relay.build(network(), TARGET, params=PARAMS)
    assert [func.script().count("T.parallel(16)") for func in found if func is not None] == [1]
    graph = graph_executor.GraphModule(library["default"](tvm.cpu()))
    graph.run(data=DATA)
    wanted = tvm.relay.create_executor("debug", network()).evaluate()(DATA, PARAMS["w"], PARAMS["b"])
    np.testing.assert_allclose(graph.get_output(0).numpy(), wanted.numpy(), rtol=1e-4)


def test_builds_of_relay_have_schedules() -> None:
    """Also in a program that uses nothing of relax."""
    assert kernel_schedules.asked() is schedules_of_builds.KERNEL_SCHEDULES
