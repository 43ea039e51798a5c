"""A model that is computed on a CPU and on a GPU, which is a stand-in that runs PTX (tests/stand_in)."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.kit.places import ROOT, STAND_IN, python_path

PROGRAM = """
import numpy as np
import tunefarm as tvm
from compiler.ir.module import IRModule
from compiler.relax.interp import run
from tunefarm import relax
from tunefarm.relax import op

host, gpu = tvm.ir.VDevice("llvm", 0), tvm.ir.VDevice("cuda -arch=sm_80", 0)
bb = relax.BlockBuilder()
x = relax.Var("x", relax.TensorStructInfo((8, 16), "float32"))
w = relax.Var("w", relax.TensorStructInfo((16, 32), "float32"))
bias = relax.const(np.linspace(-3, 3, 32, dtype="float32"))
with bb.function("main", [x, w]):
    with bb.dataflow():
        first = bb.emit(op.hint_on_device(bb.emit(op.exp(x)), host))
        product = bb.emit(op.matmul(bb.emit(op.hint_on_device(first, gpu)), w))
        there = bb.emit(op.nn.relu(bb.emit(op.add(product, bias))))
        out = bb.emit_output(op.negative(bb.emit(op.hint_on_device(there, host))))
    bb.emit_func_output(out)
mod = IRModule(bb.get().functions, global_infos={"vdevice": [host, gpu]})
executable = relax.build(mod, "llvm")
assert {*executable.program.kernels} == {"cpu", "cuda"}
machine = relax.VirtualMachine(executable, [tvm.cpu(), tvm.cuda(0)])
rng = np.random.default_rng(0)
a, b = (rng.standard_normal(shape).astype("float32") for shape in ((8, 16), (16, 32)))
for _ in range(2):
    found = machine["main"](a, tvm.nd.array(b, tvm.cuda(0)))
    assert found.device == tvm.cpu()
    np.testing.assert_allclose(found.numpy(), run(mod, a, b), rtol=1e-4, atol=1e-4)
"""


def test_a_module_of_two_targets_runs_on_both() -> None:
    environ = {**os.environ, "PYTHONPATH": python_path(STAND_IN), "CUDA_VISIBLE_DEVICES": "0"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environ, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
