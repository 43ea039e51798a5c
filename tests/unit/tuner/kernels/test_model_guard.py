"""The tuned model beside the untuned one: what keeps its schedule, and what is given back."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiler.driver.graph import build_graph
from compiler.ir.module import IRModule
from compiler.runtime.vm.vm_executable import VMExecutable
from compiler.schedule.core.schedule import Schedule
from compiler.schedule.core.trace import Trace
from compiler.target.target import Target
from tests.kit.tuner.made_up_devices import SlowerThanTheFirst
from tunefarm import meta_schedule as ms
from tunefarm import relax
from tunefarm.relax import BlockBuilder, TensorStructInfo, Var, op
from tuner.devices.model_runs import ModelTimes
from tuner.faces.kernel_schedules import draft_of
from tuner.faces.meta_schedule.relax_integration import guard_database
from tuner.kernels.model import ModelKernel, model_kernels
from tuner.kernels.model_guard import InTurns, kept_kernels

TARGET = Target("llvm -num-cores=1").resolved()
NAMES = {"one": ("1",), "two": ("2",), "parts": ("3", "4")}


class MadeUpModel:
    """A model of four kernels of 1 ms, three functions: `tuned` has milliseconds of the tuned functions."""

    def __init__(self, tuned: Mapping[str, float], beside: float = 0.0) -> None:
        self.tuned, self.beside = tuned, beside
        self.asked: list[frozenset[str]] = []

    def __call__(self, kept: frozenset[str]) -> InTurns:
        self.asked.append(kept)
        times = {name: self.tuned[name] if set(keys) <= kept else 1.0 for name, keys in NAMES.items()}
        return InTurns((_run(dict.fromkeys(NAMES, 1.0)),) * 5, (_run(times, self.beside if kept else 0.0),) * 5)


def _run(milliseconds: Mapping[str, float], beside: float = 0.0) -> ModelTimes:
    whole = (sum(milliseconds.values()) + beside) * 1e-3
    return ModelTimes((whole,) * 3, {name: each * 1e-3 for name, each in milliseconds.items()})


ALL = frozenset("1234")


@pytest.mark.parametrize(
    ("tuned", "beside", "kept", "builds"),
    [
        ({"one": 0.5, "two": 0.5, "parts": 0.5}, 0.0, ALL, 1),
        ({"one": 0.2, "two": 1.3, "parts": 0.9}, 0.0, ALL - {"2"}, 1),  # faster as a whole, but for one
        ({"one": 0.9, "two": 1.0, "parts": 1.4}, 0.0, {"1", "2"}, 2),  # slower for one of several parts
        ({"one": 0.9, "two": 1.001, "parts": 0.99}, 0.5, frozenset(), 2),  # slower whatever is given back
        ({"one": 1.5, "two": 1.5, "parts": 1.5}, 0.0, frozenset(), 1),
        ({"one": 0.9, "two": 0.9, "parts": 0.9}, 0.5, frozenset(), 1),  # by no kernel's fault
        ({"one": 1.0, "two": 1.0, "parts": 1.0}, 0.0, frozenset(), 1),  # not faster
    ],
)
def test_kernels_that_are_slower_in_the_model_are_given_back(
    tuned: Mapping[str, float], beside: float, kept: Collection[str], builds: int
) -> None:
    model = MadeUpModel(tuned, beside)
    assert kept_kernels(ALL, NAMES, model).keys == frozenset(kept)
    assert len(model.asked) == builds


def test_a_drifting_machine_does_not_decide() -> None:
    """Each round takes longer than the one before; within each the tuned model is the faster one."""
    untuned = tuple(_run({"one": 1.0 + round_}) for round_ in range(5))
    tuned = tuple(_run({"one": 0.9 * (1.0 + round_)}) for round_ in range(5))
    assert InTurns(untuned, tuned).is_faster
    assert not InTurns(untuned, tuned).slower(clearly=True)


# ------------------------------------------------------------------------ a falsely fast record


def model() -> IRModule:
    bb = BlockBuilder()
    x = Var("x", TensorStructInfo((64, 96), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            data: Any = x
            for shape in ((96, 96), (96, 64)):
                data = bb.emit(op.nn.relu(bb.emit(op.matmul(data, relax.const(np.full(shape, 0.5, "float32"))))))
            out = bb.emit_output(data)
        bb.emit_func_output(out)
    return bb.get()


def names() -> list[str]:
    return [name for kernel in kernels() for name in kernel.names]


def kernels() -> tuple[ModelKernel, ...]:
    return model_kernels(model(), TARGET)


def commit(database: ms.Database, kernel: ModelKernel, trace: Trace, seconds: float) -> IRModule:
    own = IRModule({"main": kernel.func.with_attr("global_symbol", "main")})
    workload = database.commit_workload(own)
    database.commit_tuning_record(ms.database.TuningRecord(trace, workload, (seconds,) * 3, TARGET))
    return own


def content(built: VMExecutable, folder: Path) -> bytes:
    path = folder / "built.tunefarm"
    built.export_library(str(path))
    return path.read_bytes()


def bad_schedule(kernel: ModelKernel) -> Trace:
    """One loop split in two, nothing else."""
    schedule = Schedule(kernel.func)
    block = schedule.get_child_blocks(schedule.get_block("root"))[0]
    schedule.split(schedule.get_loops(block)[0], [None, 4])
    return schedule.trace


@pytest.mark.parametrize("kind", ["json", "memory"])
def test_a_falsely_fast_record_is_given_back_and_stays_so(kind: str, tmp_path: Path) -> None:
    database = ms.Database.create(kind, **({"work_dir": str(tmp_path)} if kind == "json" else {}))
    untuned = content(build_graph(model(), TARGET, exec_mode="compiled"), tmp_path)
    for kernel in kernels():
        draft = draft_of(kernel.func, TARGET)
        assert draft is not None
        commit(database, kernel, draft, 1e-3)
        commit(database, kernel, bad_schedule(kernel), 1e-6)
    assert content(ms.relax_integration.compile_relax(database, model(), TARGET, None), tmp_path) != untuned
    device = SlowerThanTheFirst(names())
    found = guard_database(database, model(), TARGET, None, device)
    assert found is not None
    assert {kernel.name for kernel in found.given_back} == {kernel.name for kernel in kernels()}
    assert device.runs == 10
    files = [database]
    if kind == "json":
        files.append(ms.database.JSONDatabase(work_dir=str(tmp_path)))
    for known in files:
        assert content(ms.relax_integration.compile_relax(known, model(), TARGET, None), tmp_path) == untuned
        for kernel in kernels():
            own = IRModule({"main": kernel.func.with_attr("global_symbol", "main")})
            record = known.query_tuning_record(own, TARGET)
            assert record is not None
            assert record.trace == draft_of(kernel.func, TARGET)
        assert len(known.get_all_tuning_records()) == 2 * len(kernels())  # what was measured stays
    assert guard_database(database, model(), TARGET, None, device) is None  # nothing to compare any more
    assert device.runs == 10
    better = kernels()[0]
    own = commit(database, better, bad_schedule(better), 1e-7)  # a later record counts again
    again = database.query_tuning_record(own, TARGET)
    assert again is not None
    assert again.trace == bad_schedule(better)


def test_without_a_device_that_runs_models_nothing_is_given_back() -> None:
    class KernelsOnly:
        def open(self, slot: int, wait_s: float) -> KernelsOnly:
            return self

        def close(self) -> None:
            pass

    database = ms.Database.create("memory")
    kernel = kernels()[0]
    own = commit(database, kernel, bad_schedule(kernel), 1e-6)
    assert guard_database(database, model(), TARGET, None, KernelsOnly()) is None  # type: ignore[arg-type]
    assert database.query_tuning_record(own, TARGET) is not None
