"""A process that runs a built model imports neither the compiler nor the tuner nor LLVM, and shares its weights."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tunefarm import relax

WEIGHT = np.random.default_rng(0).standard_normal((512, 256)).astype("float32")
# Packages of which a process that runs a built model imports nothing.
UNWANTED = (
    "llvmlite", "tuner", "tracker", "webui", "rpc_server", "sqlalchemy", "onnx", "compiler.driver", "compiler.relax",
    "compiler.codegen", "compiler.lower", "compiler.schedule", "compiler.te", "compiler.topi", "compiler.tir",
    "compiler.script", "compiler.ir", "compiler.arith", "compiler.frontend", "compiler.faces",
)  # fmt: skip
RUN = f"""
import json, sys
import numpy as np
import tunefarm as tvm
from tunefarm import relax

tvm.runtime.set_num_threads(2)
machine = relax.VirtualMachine(tvm.runtime.load_module(sys.argv[1]), tvm.cpu())
given = tvm.nd.array(np.ones((64, 512), "float32"))
made = machine["main"](given).numpy()
unwanted = [name for name in sys.modules for package in {UNWANTED!r} if f"{{name}}.".startswith(f"{{package}}.")]
mapped, kept = 0, []
with open("/proc/self/smaps") as maps:
    for line in maps:
        name, _, rest = line.partition(":")
        if sys.argv[1] in line:
            mapped = 1
        elif "-" in name.split()[0]:
            mapped = 0
        elif mapped and name in ("Rss", "Anonymous"):
            kept.append((name, int(rest.split()[0])))
print(json.dumps({{"unwanted": unwanted, "sum": float(made.sum()), "kept": kept}}))
"""


@pytest.fixture(scope="module")
def executable() -> relax.VMExecutable:
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((64, 512), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            out = bb.emit_output(relax.op.nn.relu(bb.emit(relax.op.matmul(x, relax.const(WEIGHT)))))
        bb.emit_func_output(out)
    built: relax.VMExecutable = relax.build(bb.get(), "llvm", exec_mode="compiled")
    return built


@pytest.mark.parametrize("suffix", ["tunefarm", "so"])
def test_running_a_model_imports_no_compiler_and_maps_its_weights(
    executable: relax.VMExecutable, tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"model.{suffix}"
    executable.export_library(str(path))
    done = subprocess.run([sys.executable, "-c", RUN, str(path)], capture_output=True, text=True, check=True)
    said = json.loads(done.stdout)
    assert said["unwanted"] == []
    assert said["sum"] == pytest.approx(float(64 * np.maximum(WEIGHT.astype("float64").sum(0), 0).sum()), rel=1e-4)
    # The weights are the file's pages, which processes share: in memory, and none is a copy.
    resident = sum(size for name, size in said["kept"] if name == "Rss")
    copied = sum(size for name, size in said["kept"] if name == "Anonymous")
    assert resident >= WEIGHT.nbytes >> 10
    assert copied == 0
