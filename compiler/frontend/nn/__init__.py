"""Models written by hand: modules with parameters, whose methods become functions of a graph module."""

from compiler.frontend.nn import op, spec
from compiler.frontend.nn.effects import Effect, IOEffect, KVCache
from compiler.frontend.nn.layers import (
    GELU,
    Conv1D,
    Conv2D,
    Conv3D,
    ConvTranspose1D,
    Embedding,
    GroupNorm,
    Identity,
    LayerNorm,
    Linear,
    ReLU,
    RMSNorm,
    SiLU,
)
from compiler.frontend.nn.module import Module, ModuleDict, ModuleList
from compiler.frontend.nn.values import Object, Parameter, Tensor, wrap_nested

__all__ = [
    "GELU", "Conv1D", "Conv2D", "Conv3D", "ConvTranspose1D", "Effect", "Embedding", "GroupNorm", "IOEffect", "Identity",
    "KVCache", "LayerNorm", "Linear", "Module", "ModuleDict", "ModuleList", "Object", "Parameter", "RMSNorm", "ReLU",
    "SiLU", "Tensor", "op", "spec", "wrap_nested",
]  # fmt: skip
