"""Exported ONNX models of up to 30 million parameters agree with onnxruntime in every form that they run in.

With LARGE in the environment, larger ones do, too.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from compiler.driver.graph import build_graph
from compiler.frontend.onnx.from_onnx import from_onnx
from compiler.runtime.core.device import cpu
from compiler.runtime.vm.machine import VirtualMachine
from tests.kit.compiler.model_forms import check_agree, check_in_c, check_interpreted, results_of
from tests.kit.torch.onnx_models import MOST_IN_CI, ONNX_MODELS, export
from tests.kit.torch.table import Row, difference, keep, kernels, operators

CHOSEN = [name for name, model in ONNX_MODELS.items() if model.millions <= MOST_IN_CI or "LARGE" in os.environ]


@pytest.mark.parametrize("name", CHOSEN)
def test_a_model_agrees_with_onnxruntime_in_every_form(name: str, tmp_path: Path) -> None:
    chosen, path = ONNX_MODELS[name], export(name, tmp_path)
    with np.load(path.with_suffix(".npz")) as held:
        inputs = [held[key] for key in held.files if key.startswith("input")]
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    start = time.process_time()
    module = from_onnx(str(path))
    spent = time.process_time() - start
    executable = build_graph(module, "llvm", exec_mode="compiled")
    assert executable.interpreted == ()
    machine = VirtualMachine(executable, cpu())
    for length in (None,) if chosen.dynamic is None else (5, None):
        arrays = [np.ascontiguousarray(x[:, :length]) if length else x for x in inputs]
        wanted = session.run(None, {item.name: x for item, x in zip(session.get_inputs(), arrays)})
        made = results_of(machine["main"](*arrays))
        # the roundings of 8-bit models differ by a step, which the layers after it spread
        check_agree(made, wanted, 0 if chosen.quantised else 1e-4, 0.05 if chosen.quantised else 1e-5)
        check_interpreted(machine, arrays, made)
    check_in_c(machine, arrays, made, tmp_path)
    keep(Row("onnx", name, chosen.millions, operators(module), spent, kernels(executable), difference(made, wanted)))
