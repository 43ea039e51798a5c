"""Every family of torchvision's and transformers' models, against eager: interpreted, as machine code, and from C."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from compiler.driver.graph import build_graph
from compiler.runtime.core.device import cpu
from compiler.runtime.vm.machine import VirtualMachine
from tests.kit.compiler.c_models import run_any_in_c
from tests.kit.torch.agreement import array, imported, leaves
from tests.kit.torch.models import Model, model_names, torch_model

RTOL, ATOL = 1e-4, 1e-5
"""What float32 allows over a hundred layers; the second times the greatest result."""


@pytest.fixture(params=model_names())
def model(request: pytest.FixtureRequest) -> Model:
    return torch_model(request.param)


def test_a_model_agrees_with_eager_in_every_form(model: Model, tmp_path: Path) -> None:
    executable = build_graph(imported(model.module, model.inputs, model.dynamic), "llvm", exec_mode="compiled")
    assert executable.interpreted == ()
    machine = VirtualMachine(executable, cpu())
    for inputs in (model.inputs, *model.others):
        arrays = [x.detach().numpy() for x in inputs]
        made = _results(machine["main"](*arrays))
        _agree(made, model, inputs)
        machine.set_instrument(lambda *_: None)  # calls that are watched are interpreted
        interpreted = _results(machine["main"](*arrays))
        machine.set_instrument(None)
        assert [x.tobytes() for x in interpreted] == [x.tobytes() for x in made]
    out, maps = run_any_in_c(machine, arrays, made, tmp_path)
    assert out == b"".join(x.tobytes() for x in made)
    assert "python" not in maps


def _results(found: Any) -> list[Any]:
    return [item.numpy() for item in (found if isinstance(found, tuple) else (found,))]


def _agree(made: list[Any], model: Model, inputs: tuple[Any, ...]) -> None:
    with torch.no_grad():
        wanted = leaves(model.module(*[x.clone() for x in inputs]))
    assert len(made) == len(wanted)
    for ours, theirs in zip(made, map(array, wanted)):
        assert ours.dtype == theirs.dtype
        assert ours.shape == theirs.shape
        assert np.abs(theirs).max() > 0, "zeros say nothing"
        np.testing.assert_allclose(ours, theirs, RTOL, ATOL * max(1.0, float(np.abs(theirs).max())))
