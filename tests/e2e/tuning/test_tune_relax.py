"""A model tuned for real: tasks from its graph, records into a database, and a build that uses them."""

from typing import Any

import numpy as np

import tunefarm as tvm
from compiler.driver.kernel_schedules import KernelSchedules, kernel_schedules
from compiler.relax.interp import run
from tunefarm import meta_schedule as ms
from tunefarm import relax
from tunefarm.relax import BlockBuilder, TensorStructInfo, Var, op
from tuner.faces.kernel_schedules import KERNEL_SCHEDULES
from tuner.search.drafted import drafted

TARGET = "llvm -num-cores=1"
QUICK = ms.runner.EvaluatorConfig(number=1, repeat=2, min_repeat_ms=2)
RNG = np.random.default_rng(0)


def weight(*shape: int) -> Any:
    return relax.const(RNG.uniform(-1, 1, shape).astype("float32"))


def model() -> Any:
    """Two layers alike and one of another size."""
    bb = BlockBuilder()
    x = Var("x", TensorStructInfo((32, 48), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            data: Any = x
            for shape in ((48, 48), (48, 48), (48, 64)):
                product = bb.emit(op.matmul(data, weight(*shape)))
                data = bb.emit(op.nn.relu(bb.emit(op.add(product, weight(shape[1])))))
            out = bb.emit_output(data)
        bb.emit_func_output(out)
    return bb.get()


def test_a_model_is_tuned_and_its_build_uses_the_records(tmp_path: Any) -> None:
    mod = model()
    tasks = ms.relax_integration.extract_tasks(mod, TARGET)
    assert [task.weight for task in tasks] == [2, 1]
    database = ms.relax_integration.tune_relax(
        mod, None, TARGET, str(tmp_path), 6,
        runner=ms.runner.LocalRunner(timeout_sec=120, evaluator_config=QUICK), seed=1,
    )  # fmt: skip
    for task in tasks:  # what an untuned build uses was measured, and is there to be compared with
        draft = drafted(task.mod["main"], task.target)
        assert draft is not None
        records = [r for r in database.get_all_tuning_records() if r.workload == ms.database.Workload(task.mod)]
        assert draft.func.script() in {record.schedule().func.script() for record in records}
    found: list[bool] = []

    def find(func: Any, target: Any) -> Any:
        made = KERNEL_SCHEDULES.find(func, target)
        found.append(made is not None)
        return made

    with kernel_schedules(KernelSchedules(find)):
        built = ms.relax_integration.compile_relax(database, mod, TARGET, None)
    assert found == [True, True]
    x = RNG.uniform(-1, 1, (32, 48)).astype("float32")
    made = relax.VirtualMachine(built, tvm.cpu())["main"](x).numpy()
    np.testing.assert_allclose(made, run(mod, x), rtol=1e-4, atol=1e-4)
