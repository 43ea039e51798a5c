"""Tensor intrinsics that are registered by themselves, by what their names are in Apache TVM."""

from tunefarm.tir.tensor_intrin import x86

__all__ = ["x86"]
