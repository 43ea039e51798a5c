"""Matrix products on NVIDIA's tensor cores, as kernels ready to build."""

from __future__ import annotations

from compiler.tensorcore import tensor_core, warpgroup
from compiler.tensorcore.tensor_core import WarpTile
from compiler.tensorcore.warpgroup import WarpgroupTile
from compiler.tir.nodes import PrimFunc

__all__ = ["WarpTile", "WarpgroupTile", "dense"]


def dense(
    m: int, n: int, k: int, dtype: str = "float16", tile: WarpTile | WarpgroupTile | None = None, *,
    transposed: bool = True, out_dtype: str | None = None,
) -> PrimFunc:  # fmt: skip
    """C[m, n] = X[m, k] W[n, k]^T, or X[m, k] W[k, n] where W is not `transposed`.

    X and W "float16" or "bfloat16", the sums float32, C `out_dtype`, rounded once; or "int8" or "uint8", the sums
    int32.

    The function is lowered; its parameters are X, W, C. Sizes need not be multiples of the tile's. A `WarpTile` is for
    sm_80 and later, the default; a `WarpgroupTile` for sm_90a, float16 and bfloat16, rows of a multiple of 16 bytes.
    Raises IRError for a tile that is none, and for sizes that it does not have.
    """
    if isinstance(tile, WarpgroupTile):
        return warpgroup.dense(m, n, k, dtype, tile, transposed=transposed, out_dtype=out_dtype)
    return tensor_core.dense(m, n, k, dtype, tile, transposed=transposed, out_dtype=out_dtype)
