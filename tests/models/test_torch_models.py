"""Every family of torchvision's and transformers' models, against eager: interpreted, as machine code, and from C."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import torch

from compiler.driver.graph import build_graph
from compiler.frontend.torch.exported import from_exported_program
from compiler.runtime.core.device import cpu
from compiler.runtime.vm.machine import VirtualMachine
from tests.kit.compiler.model_forms import check_agree, check_in_c, check_interpreted, results_of
from tests.kit.torch.agreement import array, leaves
from tests.kit.torch.language import encoder
from tests.kit.torch.models import model_names, torch_model
from tests.kit.torch.table import Row, difference, keep, kernels, operators
from tests.kit.torch.vision import vision_model

RTOL, ATOL = 1e-4, 1e-5
"""The differences that float32 allows over a hundred layers; the second times the greatest result."""


@pytest.mark.parametrize("name", model_names())
def test_a_model_agrees_with_eager_in_every_form(name: str, tmp_path: Path) -> None:
    model = torch_model(name)
    with torch.no_grad():
        program = torch.export.export(model.module, model.inputs, dynamic_shapes=model.dynamic)
    start = time.process_time()
    module = from_exported_program(program)
    spent = time.process_time() - start
    executable = build_graph(module, "llvm", exec_mode="compiled")
    assert executable.interpreted == ()
    machine = VirtualMachine(executable, cpu())
    for inputs in (*model.others, model.inputs):
        arrays = [x.detach().numpy() for x in inputs]
        made = results_of(machine["main"](*arrays))
        with torch.no_grad():
            wanted = [array(x) for x in leaves(model.module(*[x.clone() for x in inputs]))]
        check_agree(made, wanted, RTOL, ATOL)
        check_interpreted(machine, arrays, made)
    check_in_c(machine, arrays, made, tmp_path)
    millions = sum(weights.numel() for weights in model.module.parameters()) / 1e6
    error = difference(made, wanted)
    keep(Row("torch", name, millions, operators(module), spent, kernels(executable), error))


@pytest.mark.parametrize("make", [lambda: vision_model("resnet50", 224), encoder], ids=["resnet50", "bert_base"])
def test_the_import_of_a_large_model_takes_less_than_two_seconds(make: Any) -> None:
    module, inputs = make()
    with torch.no_grad():
        program = torch.export.export(module, inputs)
    start = time.process_time()
    from_exported_program(program)
    assert time.process_time() - start < 2
