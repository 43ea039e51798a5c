"""Turn products of matrices for tensor cores into kernels of warps, or of warpgroups.

A block asks for it by annotations: `warp_tile.m` and so on for each part of a `WarpTile`, or `warpgroup_tile.m` and
so on for a `WarpgroupTile`. It must be a product as `warp_match` describes, such as a convolution. The function may
do nothing else but compute from its results, element by element.
"""

from __future__ import annotations

from dataclasses import fields

from compiler.errors import LoweringError
from compiler.tensorcore import tensor_core, warpgroup
from compiler.tensorcore.tensor_core import WarpTile
from compiler.tensorcore.warp_kernel import ATTRS
from compiler.tensorcore.warp_match import warp_product
from compiler.tensorcore.warpgroup import WarpgroupTile
from compiler.tir import nodes as n
from compiler.tir.transform import tir_pass
from compiler.tir.visit import walk_stmts

WARP_TILE, WARPGROUP_TILE = "warp_tile.", "warpgroup_tile."


@tir_pass("LowerWarpProducts")
def lower_warp_products(func: n.PrimFunc) -> n.PrimFunc:
    """Lower a function whose block asks for tensor cores to a kernel of warps, or of warpgroups.

    Any other stays as it is. Raises LoweringError for a block that is no such product, IRError for an invalid tile.
    """
    asked = [
        b
        for b in walk_stmts(func.body)
        if isinstance(b, n.Block) and any(k.startswith((WARP_TILE, WARPGROUP_TILE)) for k in b.annotations)
    ]
    if not asked:
        return func
    found = warp_product(func)
    if found is None:
        raise LoweringError(
            f"block {asked[0].name_hint!r} is no product of two matrices that tensor cores compute",
            hint="a function with one sum of products, of float16, bfloat16 or bytes, and what is made of each result",
        )
    groups = _said(asked[0], WARPGROUP_TILE)
    if groups:
        body = warpgroup.kernel(found, _warpgroup_tile(groups))
    else:
        body = tensor_core.kernel(found, _tile(_said(asked[0], WARP_TILE)))
    return n.PrimFunc(func.params, body, func.ret_type, func.buffer_map, {**func.attrs, **ATTRS})


def _said(block: n.Block, prefix: str) -> dict[str, int]:
    return {key.removeprefix(prefix): int(v) for key, v in block.annotations.items() if key.startswith(prefix)}


def _warpgroup_tile(said: dict[str, int]) -> WarpgroupTile:
    known = {field.name for field in fields(WarpgroupTile)}
    if not said.keys() <= known:
        raise LoweringError(f"a tile of warpgroups has {sorted(known)}; not {sorted(said)}")
    return WarpgroupTile(**said)


def _tile(said: dict[str, int]) -> WarpTile:
    warps = said.pop("warps_m", 1), said.pop("warps_n", 1)
    known = {field.name for field in fields(WarpTile)} - {"warps"}
    if said.keys() != known:
        raise LoweringError(f"a warp tile has {sorted(known)}, warps_m and warps_n; not {sorted(said)}")
    return WarpTile(**said, warps=warps)
