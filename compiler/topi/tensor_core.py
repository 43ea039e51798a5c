"""Matrix products on NVIDIA's tensor cores, as kernels ready to build."""

from compiler.lower.tensor_core import WarpTile, dense

__all__ = ["WarpTile", "dense"]
