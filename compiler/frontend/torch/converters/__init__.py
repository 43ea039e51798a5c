"""Converters, a file a family. Importing this package fills the table."""

from compiler.frontend.torch.converters import (
    activation,
    attention,
    comparison,
    conv,
    creation,
    elementwise,
    image,
    indexing,
    linear,
    norm,
    pooling,
    reduction,
    scalars,
    scatter,
    shape,
    sorting,
)

__all__ = [
    "activation", "attention", "comparison", "conv", "creation", "elementwise", "image", "indexing", "linear", "norm",
    "pooling", "reduction", "scalars", "scatter", "shape", "sorting",
]  # fmt: skip
