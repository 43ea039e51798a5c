"""Weights for networks: what a network is built with when it was not trained."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from compiler.faces.relay.nodes import Expr, Function
from compiler.faces.relay.order import free_vars
from compiler.faces.relay.types import TensorType
from compiler.ir.module import IRModule
from compiler.runtime.core.ndarray import NDArray, numpyasarray

Initializer = Callable[[str, np.ndarray[Any, Any], np.random.Generator], None]


def xavier(name: str, array: np.ndarray[Any, Any], rng: np.random.Generator) -> None:
    """Fill `array` by what its name ends in.
    Weights as Glorot and Bengio (2010) say, norms and biases plainly."""
    if name.endswith(("gamma", "moving_var", "var")):
        array[...] = 1.0
    elif name.endswith(("beta", "bias", "moving_mean", "mean")):
        array[...] = 0.0
    elif name.endswith("weight") and array.ndim > 1:
        inner = math.prod(array.shape[2:])
        scale = math.sqrt(6.0 / (array.shape[1] * inner + array.shape[0] * inner))
        array[...] = rng.uniform(-scale, scale, array.shape)
    else:
        array[...] = rng.uniform(-0.05, 0.05, array.shape)


def create_workload(
    net: Expr, initializer: Initializer | None = None, seed: int = 0
) -> tuple[IRModule, dict[str, NDArray]]:
    """A module whose "main" is `net`, and values for all of its variables but "data" and "label"."""
    func = net if isinstance(net, Function) else Function(tuple(free_vars(net)), net)
    fill, rng = initializer or xavier, np.random.default_rng(seed)
    params: dict[str, NDArray] = {}
    for param in func.params:
        kind = param.type_annotation
        if param.name_hint in ("data", "label") or not isinstance(kind, TensorType):
            continue
        made = np.zeros(kind.concrete_shape, kind.dtype)
        fill(param.name_hint, made, rng)
        params[param.name_hint] = numpyasarray(made)
    return IRModule({"main": func}), params
