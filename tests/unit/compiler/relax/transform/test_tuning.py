"""Passes that ask the tuner: what they ask, what becomes of the kernels, the tuner's own answers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tunefarm as tvm
from compiler.errors import ArgumentError, TunefarmError
from compiler.ir.structural import assert_structural_equal
from compiler.relax.interp import run
from compiler.relax.transform.tuning.kernel_tuner import SCHEDULED, KernelTuner, kernel_tuner
from tests.kit.compiler.pass_checks import same_values
from tunefarm import meta_schedule, relax
from tunefarm.relax import BlockBuilder, TensorStructInfo, Var, op, transform
from tunefarm.tir import PrimFunc, Schedule


def model(size: int = 8) -> Any:
    bb = BlockBuilder()
    x, w = (Var(name, TensorStructInfo((size, size), "float32")) for name in "xw")  # type: ignore[arg-type]
    with bb.function("main", [x, w]):
        with bb.dataflow():
            out = bb.emit_output(op.nn.relu(bb.emit(op.matmul(x, w))))
        bb.emit_func_output(out)
    return transform.LegalizeOps()(bb.get())


def unrolled(func: PrimFunc) -> PrimFunc:
    """The kernel with a mark in its schedule."""
    schedule = Schedule(tvm.IRModule({"main": func}))
    (block, *_) = schedule.get_child_blocks(schedule.get_block("root"))
    schedule.annotate(block, "test.mark", 1)
    made: PrimFunc = schedule.mod["main"]
    return made


class Answers:
    """A tuner that knows products, and writes down what it is asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def find(self, func: PrimFunc, target: Any, work_dir: str | None) -> PrimFunc | None:
        self.asked.append(("find", str(target.kind), work_dir))
        return unrolled(func) if "matmul" in str(func) else None

    def tune(self, kernels: Mapping[str, PrimFunc], target: Any, work_dir: str, most: int, each: int | None) -> None:
        self.asked.append(("tune", sorted(kernels), work_dir, most, each))

    def choose(self, func: PrimFunc, target: Any, valid_count: int, benchmark: bool) -> PrimFunc | None:
        self.asked.append(("choose", valid_count, benchmark))
        return unrolled(func)

    @property
    def tuner(self) -> KernelTuner:
        return KernelTuner(self.find, self.tune, self.choose)


def scheduled(mod: Any) -> list[str]:
    return sorted(name.name_hint for name, func in mod.items() if func.attrs.get(SCHEDULED))


def test_records_schedule_kernels_once() -> None:
    mod, answers = model(), Answers()
    with kernel_tuner(answers.tuner), tvm.target.Target("llvm"):
        with pytest.warns(UserWarning, match="no record of the kernel relu for llvm"):
            made = transform.MetaScheduleApplyDatabase("folder", enable_warning=True)(mod)
        again = transform.MetaScheduleApplyDatabase()(made)
    assert scheduled(made) == ["matmul"]
    assert "test.mark" in made.script()
    assert_structural_equal(again, made)
    assert answers.asked == [("find", "llvm", "folder")] * 2 + [("find", "llvm", None)]
    x, w = np.random.default_rng(0).standard_normal((2, 8, 8)).astype("float32")
    same_values(run(made, x, w), run(mod, x, w))


def test_kernels_are_tuned_and_the_module_stays() -> None:
    mod, answers = model(), Answers()
    with kernel_tuner(answers.tuner):
        assert transform.MetaScheduleTuneTIR("folder", 7)(mod) is mod
        assert transform.MetaScheduleTuneIRMod({}, "folder", 9, 3, op_names=["mat"])(mod) is mod
        assert transform.MetaScheduleTuneIRMod({}, "folder", 9, op_names=["conv"])(mod) is mod
        made = transform.FewShotTuning(valid_count=4, benchmark=True)(mod)
    assert answers.asked == [
        ("tune", ["matmul", "relu"], "folder", 7, None), ("tune", ["matmul"], "folder", 9, 3),
        ("choose", 4, True), ("choose", 4, True),
    ]  # fmt: skip
    assert scheduled(made) == ["matmul", "relu"]
    with pytest.raises(ArgumentError, match="valid_count is 0"):
        transform.FewShotTuning(0)(mod)
    with pytest.raises(ArgumentError, match="max_trials_global is 0"):
        transform.MetaScheduleTuneTIR("folder", 0)(mod)
    with kernel_tuner(KernelTuner()), pytest.raises(TunefarmError, match="no tuner is registered"):
        transform.FewShotTuning()(mod)


def test_the_tuner_finds_records_and_drafts(tmp_path: Path) -> None:
    mod = model(64)
    target = tvm.target.Target("llvm")
    kernel = next(func for name, func in mod.items() if name.name_hint == "matmul")
    plain = tvm.IRModule({"main": kernel.with_attr("global_symbol", "main")})
    database = meta_schedule.database.JSONDatabase(work_dir=str(tmp_path))
    schedule = Schedule(plain)
    block = schedule.get_block("T_matmul")
    schedule.split(schedule.get_loops(block)[0], factors=[None, 4])
    workload = database.commit_workload(plain)
    database.commit_tuning_record(meta_schedule.database.TuningRecord(schedule.trace, workload, [1.0], target))
    with target:
        found = transform.MetaScheduleApplyDatabase(str(tmp_path))(mod)
        assert scheduled(found) == ["matmul"]
        few = transform.FewShotTuning()(mod)
    assert "matmul" in scheduled(few)
    x, w = np.random.default_rng(0).standard_normal((2, 64, 64)).astype("float32")
    machine = relax.VirtualMachine(relax.build(found, target), tvm.cpu())
    same_values(machine["main"](x, w).numpy(), np.maximum(x @ w, 0), 1e-3, 1e-3)
