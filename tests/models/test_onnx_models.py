"""Exported ONNX models of up to 30 million parameters agree with onnxruntime in every form that they run in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from compiler.driver.graph import build_graph
from compiler.frontend.onnx.from_onnx import from_onnx
from compiler.runtime.core.device import cpu
from compiler.runtime.vm.machine import VirtualMachine
from tests.kit.compiler.c_models import run_any_in_c
from tests.kit.torch.onnx_models import MOST_IN_CI, ONNX_MODELS, export

SMALL = [name for name, model in ONNX_MODELS.items() if model.millions <= MOST_IN_CI]


@pytest.mark.parametrize("name", SMALL)
def test_a_model_agrees_with_onnxruntime_in_every_form(name: str, tmp_path: Path) -> None:
    path = export(name, tmp_path)
    with np.load(path.with_suffix(".npz")) as held:
        inputs = [held[key] for key in held.files if key.startswith("input")]
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    executable = build_graph(from_onnx(str(path)), "llvm", exec_mode="compiled")
    assert executable.interpreted == ()
    machine = VirtualMachine(executable, cpu())
    lengths = [None] if ONNX_MODELS[name].dynamic is None else [5, None]
    for length in lengths:
        arrays = [np.ascontiguousarray(x[:, :length]) if length else x for x in inputs]
        wanted = session.run(None, {item.name: x for item, x in zip(session.get_inputs(), arrays)})
        made = _results(machine["main"](*arrays))
        _agree(made, wanted, ONNX_MODELS[name].quantised)
        machine.set_instrument(lambda *_: None)  # calls that are watched are interpreted
        interpreted = _results(machine["main"](*arrays))
        machine.set_instrument(None)
        assert [x.tobytes() for x in interpreted] == [x.tobytes() for x in made]
    out, maps = run_any_in_c(machine, arrays, made, tmp_path)
    assert out == b"".join(x.tobytes() for x in made)
    assert "python" not in maps


def _results(found: Any) -> list[Any]:
    return [item.numpy() for item in (found if isinstance(found, tuple) else (found,))]


def _agree(made: list[Any], wanted: list[Any], quantised: bool) -> None:
    """Within what float32 allows; of 8-bit models, whose roundings differ by one step, within a few percent."""
    assert len(made) == len(wanted)
    for ours, theirs in zip(made, wanted):
        assert ours.dtype == theirs.dtype
        assert ours.shape == theirs.shape
        greatest = float(np.abs(theirs).max())
        assert greatest > 0, "zeros say nothing"
        np.testing.assert_allclose(ours, theirs, 0 if quantised else 1e-4, (0.05 if quantised else 1e-5) * greatest)
