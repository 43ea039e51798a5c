"""Element types of torch and of relax, and what arithmetic of several gives."""

from __future__ import annotations

from typing import Any

import torch

from compiler.frontend.torch.errors import RefusedNode
from compiler.relax.nodes import Constant
from compiler.runtime.core.ndarray import NDArray, from_dlpack

NAMES: dict[Any, str] = {
    getattr(torch, name): name
    for name in (
        "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64",
        "float8_e4m3fn", "float8_e5m2",
    )
}  # fmt: skip
DTYPES: dict[str, Any] = {name: dtype for dtype, name in NAMES.items()}


def dtype_name(dtype: Any) -> str:
    """The name of torch's element type. Raises RefusedNode for complex and quantised ones."""
    found = NAMES.get(dtype)
    if found is None:
        raise RefusedNode(f"elements of {dtype} are not supported")
    return found


def is_float(dtype: str) -> bool:
    return "float" in dtype


def _rank(dtype: str) -> int:
    return 0 if dtype == "bool" else 2 if is_float(dtype) else 1


def promoted(tensors: list[tuple[str, int]], scalars: list[type]) -> str:
    """The type of a result by torch's rules.

    `tensors` are element types and numbers of dimensions. Tensors with dimensions count most, then those without,
    then Python numbers: a lower one decides only if it is of a higher kind (bool, integer, floating point).
    """
    found = ""
    ranked, single = [dtype for dtype, rank in tensors if rank], [dtype for dtype, rank in tensors if not rank]
    for group in (ranked, single, list(map(_python, scalars))):
        own = ""
        for dtype in group:
            own = dtype if not own else NAMES[torch.promote_types(DTYPES[own], DTYPES[dtype])]
        if own and (not found or _rank(own) > _rank(found)):
            found = own
    return found


def _python(kind: type) -> str:
    return "bool" if kind is bool else "int64" if kind is int else NAMES[torch.get_default_dtype()]


def shared_array(tensor: Any) -> NDArray:
    """A host tensor's memory as an array, not copied unless it is scattered or elsewhere."""
    plain = tensor.detach()
    if plain.is_neg() or plain.is_conj():
        plain = plain.resolve_neg().resolve_conj()
    plain = plain.cpu().contiguous()
    dtype_name(plain.dtype)
    return from_dlpack(plain)


class TorchConstants:
    """Tensors of a model as constants. Tied weights are one constant."""

    def __init__(self) -> None:
        self._known: dict[Any, tuple[Any, Constant]] = {}

    def constant(self, tensor: Any) -> Constant:
        """The constant that shares a tensor's memory."""
        key = (tensor.data_ptr(), tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype)
        if tensor.numel() == 0 or tensor.data_ptr() == 0:
            return Constant(shared_array(tensor))
        held = self._known.get(key)
        if held is None:
            held = self._known[key] = tensor, Constant(shared_array(tensor))
        return held[1]
