"""Whole models built for other machines, run under qemu: they give what the interpreter gives."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiler.relax.interp import run
from compiler.runtime.files.elf_section import with_flags_of
from compiler.runtime.files.model_library import START, file_object, start_object
from compiler.runtime.vm.model_file import layout
from tests.kit.compiler import cross
from tunefarm import relax
from tunefarm.relax import BlockBuilder, TensorStructInfo, Var, op


def model() -> Any:
    def tensor(*shape: int) -> TensorStructInfo:
        return TensorStructInfo(relax.ShapeExpr(shape), "float32")

    weights = np.linspace(-1, 1, 3 * 3 * 4 * 8, dtype="float32").reshape(8, 4, 3, 3)
    x, c = Var("x", tensor(1, 4, 10, 10)), Var("c", TensorStructInfo(relax.ShapeExpr(()), "bool"))
    bb = BlockBuilder()
    with bb.function("main", [x, c]):
        y = bb.emit(op.nn.relu(op.nn.conv2d(x, relax.const(weights))))
        pooled = bb.emit(op.mean(y, axis=[2, 3]))
        taken = relax.If(c, relax.SeqExpr((), op.nn.softmax(pooled)), relax.SeqExpr((), op.tanh(pooled)))
        bb.emit_func_output(bb.emit(taken))
    return bb.get()


@pytest.mark.parametrize("name", ["aarch64", "riscv64"])
def test_a_model_for_another_machine(name: str, tmp_path: Path) -> None:
    machine = cross.MACHINES[name]
    if machine.missing:
        pytest.skip(f"{machine.missing} is not installed")
    executable = relax.build(model(), machine.target, exec_mode="compiled")
    assert executable.program.interpreted == ()
    artifact, file = executable.measurable(), layout(executable.program)
    code = artifact.blobs["object"]
    beside = {
        "begin.o": with_flags_of(start_object(machine.target.mtriple, artifact.constants, file.arrays), code),
        "model.o": b"".join(file_object(code, file.chunks, file.size)),
    }
    x = np.random.default_rng(0).standard_normal((1, 4, 10, 10)).astype("float32")
    for condition in (True, False):
        c, out = np.array([condition]), np.zeros((1, 8), "float32")
        cross.run(machine, artifact, [x.copy(), c, out], tmp_path, beside=beside, first=START)
        np.testing.assert_allclose(out, run(model(), x, np.array(condition)), rtol=1e-4, atol=1e-5)
