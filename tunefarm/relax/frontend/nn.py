"""Models written by hand: modules whose methods become functions of a graph module."""

from compiler.frontend.nn import (
    GELU,
    Conv1D,
    Conv2D,
    Conv3D,
    ConvTranspose1D,
    Effect,
    Embedding,
    GroupNorm,
    Identity,
    IOEffect,
    KVCache,
    LayerNorm,
    Linear,
    Module,
    ModuleDict,
    ModuleList,
    Object,
    Parameter,
    ReLU,
    RMSNorm,
    SiLU,
    Tensor,
    op,
    spec,
    wrap_nested,
)

__all__ = [
    "GELU", "Conv1D", "Conv2D", "Conv3D", "ConvTranspose1D", "Effect", "Embedding", "GroupNorm", "IOEffect", "Identity",
    "KVCache", "LayerNorm", "Linear", "Module", "ModuleDict", "ModuleList", "Object", "Parameter", "RMSNorm", "ReLU",
    "SiLU", "Tensor", "op", "spec", "wrap_nested",
]  # fmt: skip
