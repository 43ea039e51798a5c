"""Graphs with symbolic dimensions: builds take families' kernels and rules, and give what the interpreter gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from compiler.driver.graph import build_graph
from compiler.driver.kernel_schedules import kernel_schedules
from compiler.relax.interp import run
from compiler.target.target import Target
from tests.kit.tuner.family_records import made_up_for
from tunefarm import cpu, relax, tir
from tunefarm.model_schedules import schedules_of
from tuner.devices.supplies import local_target
from tuner.families.build import kernels_of
from tuner.families.family import Family, FamilySpec
from tuner.families.function import FunctionSpec
from tuner.families.record import FamilyRecord
from tuner.families.sizes import parse_shapes
from tuner.kernels.model import families_in, unscheduled

WEIGHT = np.random.default_rng(0).random((64, 64), "float32") - 0.5


def model() -> Any:
    """Two products of rows that only a call tells, the first with an epilogue."""
    rows = tir.Var("rows", "int64")
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((rows, 64), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            hidden = bb.emit(relax.op.nn.relu(bb.emit(relax.op.matmul(x, relax.const(WEIGHT)))))
            out = bb.emit_output(relax.op.matmul(hidden, relax.const(WEIGHT + 1)))
        bb.emit_func_output(out)
    return bb.get()


@pytest.fixture(scope="module")
def records() -> list[FamilyRecord]:
    module = unscheduled(model(), Target(local_target()).resolved())
    return [made_up_for(Family(f.spec, parse_shapes(["rows=1,8,17"]))) for f in families_in(module)]


def test_a_kernel_of_a_graph_is_the_family_of_a_named_workload(records: list[FamilyRecord]) -> None:
    """Though its sizes are int64 and called otherwise."""
    keys = [FunctionSpec.from_json(record.what).key for record in records]
    assert len(set(keys)) == 2
    assert FamilySpec.parse("matmul:M,64,64").key in keys
    assert FamilySpec.parse("matmul:M,64,32").key not in keys
    again = FamilyRecord.from_json(records[0].to_json())
    assert (again, again.digest) == (records[0], records[0].digest)


@pytest.mark.parametrize("mode", ["compiled", "bytecode"])
def test_any_size_is_right(records: list[FamilyRecord], mode: str) -> None:
    assert all(kernels_of(record).general for record in records)
    with kernel_schedules(schedules_of({}, records)):
        executable = build_graph(model(), local_target(), exec_mode=mode)
    names = [entry.name for entry in executable.program.kernels["cpu"].entries]
    assert sum("_sized_" in name for name in names) == sum(len(kernels_of(record).funcs) for record in records)
    machine = relax.VirtualMachine(executable, cpu())
    for rows in (0, 1, 2, 7, 8, 9, 17, 40):
        data = np.random.default_rng(rows).random((rows, 64), "float32")
        wanted = run(model(), data)
        np.testing.assert_allclose(machine["main"](data).numpy(), wanted, rtol=1e-3, atol=1e-4)
