"""StructInfo of tensors, in few words."""

from __future__ import annotations

from typing import Any

from compiler.relax.nodes import TensorStructInfo


def tensor(*shape: Any, dtype: str = "float32") -> TensorStructInfo:
    return TensorStructInfo(shape, dtype)  # type: ignore[arg-type]
