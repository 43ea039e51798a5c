"""A program of Relay tuned for real: tasks, records into a database, and a build that uses them."""

from typing import Any

import numpy as np
import pytest

import tunefarm as tvm
from compiler.driver.kernel_schedules import KernelSchedules, kernel_schedules
from tunefarm import meta_schedule as ms
from tunefarm import relay
from tunefarm.contrib import graph_executor
from tuner.faces.kernel_schedules import KERNEL_SCHEDULES

TARGET = tvm.target.Target("llvm -num-cores=1")
QUICK = ms.runner.EvaluatorConfig(number=1, repeat=1, min_repeat_ms=1)
RNG = np.random.default_rng(0)
WEIGHTS = {
    "w": RNG.uniform(-1, 1, (48, 32)).astype("float32"),
    "b": RNG.uniform(-1, 1, 48).astype("float32"),
}


def program() -> Any:
    x, w = relay.var("x", shape=(16, 32)), relay.var("w", shape=(48, 32))
    b = relay.var("b", shape=(48,))
    layer = relay.nn.relu(relay.nn.bias_add(relay.nn.dense(x, w), b))
    return tvm.IRModule.from_expr(relay.Function([x, w, b], layer))


def test_a_program_is_tuned_and_its_build_uses_the_records(tmp_path: Any) -> None:
    mod = program()
    tasks = ms.relay_integration.extract_tasks(mod, TARGET, WEIGHTS)
    assert [task.weight for task in tasks] == [1]
    contexts, weights = ms.relay_integration.extracted_tasks_to_tune_contexts(tasks, str(tmp_path))
    assert ([context.task_name for context in contexts], weights) == ([tasks[0].task_name], [1.0])
    database = ms.relay_integration.tune_relay(
        mod, WEIGHTS, TARGET, str(tmp_path), 4, seed=1, num_trials_per_iter=4,
        runner=ms.runner.LocalRunner(timeout_sec=120, evaluator_config=QUICK),
    )  # fmt: skip
    records = database.get_all_tuning_records()
    assert {record.workload == ms.database.Workload(tasks[0].mod) for record in records} == {True}
    found: list[bool] = []

    def find(func: Any, target: Any) -> Any:
        made = KERNEL_SCHEDULES.find(func, target)
        found.append(made is not None)
        return made

    with kernel_schedules(KernelSchedules(find)):
        library = ms.relay_integration.compile_relay(database, mod, TARGET, WEIGHTS)
        machine = ms.relay_integration.compile_relay(database, mod, TARGET, WEIGHTS, backend="vm")
    assert found == [True, True]
    x = RNG.uniform(-1, 1, (16, 32)).astype("float32")
    wanted = np.maximum(x @ WEIGHTS["w"].T + WEIGHTS["b"], 0)
    network = graph_executor.GraphModule(library["default"](tvm.cpu()))
    network.run(x=x)
    np.testing.assert_allclose(network.get_output(0).numpy(), wanted, rtol=1e-4, atol=1e-4)
    ran = tvm.relax.VirtualMachine(machine, tvm.cpu())["main"](tvm.nd.array(x))
    np.testing.assert_allclose(ran.numpy(), wanted, rtol=1e-4, atol=1e-4)


def test_an_unknown_option_of_the_passes_is_refused() -> None:
    database = ms.database.MemoryDatabase()
    with pytest.raises(AttributeError, match=r"no\.such"):
        ms.relay_integration.compile_relay(database, program(), TARGET, WEIGHTS, pass_config={"no.such": 1})
