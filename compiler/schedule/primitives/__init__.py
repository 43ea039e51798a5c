"""The modules of primitives: importing this one registers them all."""

from compiler.schedule.primitives import block_axes as blockaxes
from compiler.schedule.primitives import (
    blockize,
    cache,
    cache_index,
    compute_at,
    copy_at,
    decompose_padding,
    inline,
    layout,
    loop_parts,
    loops,
    pad_einsum,
    query,
    reduction,
    reindex,
    rfactor,
    rolling,
    sampling,
    storage,
    tensorize,
    winograd,
)
from compiler.schedule.primitives import loop_kinds as kinds

__all__ = [
    "blockaxes", "blockize", "cache", "cache_index", "compute_at", "copy_at", "decompose_padding", "inline", "kinds",
    "layout", "loop_parts", "loops", "pad_einsum", "query", "reduction", "reindex", "rfactor", "rolling", "sampling",
    "storage", "tensorize", "winograd",
]  # fmt: skip
