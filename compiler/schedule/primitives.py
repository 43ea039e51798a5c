"""The modules of primitives: importing this one registers them all."""

from compiler.schedule import (
    blockaxes,
    blockize,
    cache,
    cache_index,
    compute_at,
    decompose_padding,
    inline,
    kinds,
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

__all__ = [
    "blockaxes", "blockize", "cache", "cache_index", "compute_at", "decompose_padding", "inline", "kinds",
    "layout", "loop_parts", "loops", "pad_einsum", "query", "reduction", "reindex", "rfactor", "rolling", "sampling",
    "storage", "tensorize", "winograd",
]  # fmt: skip
