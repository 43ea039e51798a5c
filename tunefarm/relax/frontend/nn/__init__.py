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
    wrap_nested,
)
from tunefarm.compatibility import refuse_other_names
from tunefarm.relax.frontend.nn import op, spec

__all__ = [
    "GELU", "Conv1D", "Conv2D", "Conv3D", "ConvTranspose1D", "Effect", "Embedding", "GroupNorm", "IOEffect", "Identity",
    "KVCache", "LayerNorm", "Linear", "Module", "ModuleDict", "ModuleList", "Object", "Parameter", "RMSNorm", "ReLU",
    "SiLU", "Tensor", "op", "spec", "wrap_nested",
]  # fmt: skip

refuse_other_names(__name__)
