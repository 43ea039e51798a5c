"""Runs a model by torch and by tunefarm, and compares."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch

from compiler.driver.graph import build_graph
from compiler.frontend.torch.exported import from_exported_program
from compiler.ir.module import IRModule
from compiler.runtime.core.device import cpu
from compiler.runtime.vm.machine import VirtualMachine


def leaves(value: Any) -> list[Any]:
    """The tensors in nested tuples, lists and dicts, in order."""
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in leaves(item)]
    if isinstance(value, list | tuple):
        return [leaf for item in value for leaf in leaves(item)]
    return [] if value is None else [value]


class Function(torch.nn.Module):
    """A function as a model."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def imported(model: Any, inputs: Sequence[Any], dynamic: Any = None, **options: Any) -> IRModule:
    """A model, or a function, as a module."""
    module = model if isinstance(model, torch.nn.Module) else Function(model).eval()
    shapes = None if dynamic is None else (dynamic if isinstance(model, torch.nn.Module) else (dynamic,))
    with torch.no_grad():
        program = torch.export.export(module, tuple(inputs), dynamic_shapes=shapes)
    return from_exported_program(program, **options)


def machine(mod: IRModule) -> VirtualMachine:
    return VirtualMachine(build_graph(mod, "llvm"), cpu())


def array(tensor: Any) -> Any:
    """A tensor as numpy's array; bfloat16 widened."""
    plain = tensor.detach()
    return plain.float().numpy() if plain.dtype == torch.bfloat16 else plain.numpy()


def results(vm: VirtualMachine, inputs: Iterable[Any]) -> list[Any]:
    """Return the result of "main" for tensors."""
    found = vm["main"](*[x.detach().numpy() for x in inputs])
    return [item.numpy() for item in (found if isinstance(found, tuple) else (found,))]


def check(model: Any, inputs: Sequence[Any], dynamic: Any = None, rtol: float = 1e-5, atol: float = 1e-5) -> IRModule:
    """Fail unless a model gives the same by torch and by tunefarm; the module."""
    mod = imported(model, inputs, dynamic)
    compare(machine(mod), model, inputs, rtol, atol)
    return mod


def compare(vm: VirtualMachine, model: Any, inputs: Sequence[Any], rtol: float = 1e-5, atol: float = 1e-5) -> None:
    """Fail unless "main" gives what the model does for inputs, which either may change."""
    with torch.no_grad():
        want = leaves(model(*[x.clone() for x in inputs]))
    got = results(vm, [x.clone() for x in inputs])
    assert len(got) == len(want)
    for made, wanted in zip(got, want):
        wanted = array(wanted) if hasattr(wanted, "detach") else np.asarray(wanted)
        assert made.dtype == wanted.dtype
        assert made.shape == wanted.shape
        np.testing.assert_allclose(made, wanted, rtol, atol)
