"""A family's kernel as an operator of PyTorch: `torch.compile` and `torch.export` see it as one.

    dense = torch_op("dense:M,3072,768", api="http://127.0.0.1:9180")
    y = dense(x, weight)

It runs on the CPU and has no gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from compiler.errors import ArgumentError
from tunefarm.family_kernel import FamilyKernel, kernel
from tuner.families.build import function_name

__all__ = ["torch_op"]


def torch_op(family: str | FamilyKernel, name: str = "", **options: Any) -> Callable[..., torch.Tensor]:
    """The kernel of a family as a custom operator of torch.

    `name` is "namespace::operator", by default "tunefarm::" and the family's name. `options` are those of
    `tunefarm.kernel`, for a family given as text. Raises what that raises, and ArgumentError for a name that torch does
    not take.
    """
    found = family if isinstance(family, FamilyKernel) else kernel(family, **options)
    inputs = found.inputs
    qualified = name or f"tunefarm::{function_name(found.name)}"
    schema = f"({', '.join(f'Tensor {arg.name}' for arg in inputs)}) -> Tensor"
    dtype = getattr(torch, found.output.dtype)

    def run(*tensors: torch.Tensor) -> torch.Tensor:
        given = [tensor.detach().contiguous() for tensor in tensors]
        out = torch.empty(found.result_shape(*(tensor.shape for tensor in given)), dtype=dtype)
        found(*given, out)
        return out

    def shaped(*tensors: torch.Tensor) -> torch.Tensor:
        return tensors[0].new_empty(found.result_shape(*(tensor.shape for tensor in tensors)), dtype=dtype)

    try:
        made = torch.library.custom_op(qualified, run, mutates_args=(), schema=schema, device_types="cpu")
    except (RuntimeError, ValueError) as error:
        raise ArgumentError(
            f"torch takes no operator {qualified!r}: {error}", hint='for example "mine::dense"'
        ) from None
    made.register_fake(shaped)
    operator: Callable[..., torch.Tensor] = made
    return operator
