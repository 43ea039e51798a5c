"""What a workload's function says about its cost on any machine."""

from __future__ import annotations

from functools import lru_cache

from compiler.dtype import parse_dtype
from compiler.errors import TunefarmError
from compiler.script.entry import from_source
from compiler.tir.nodes import PrimFunc
from compiler.tir.ops import as_int


@lru_cache(maxsize=256)
def least_bytes(function: str) -> int | None:
    """Bytes of all arguments of a function given as script: what any implementation moves at least once.

    None when the text is of another version, of several functions, or has symbolic shapes.
    """
    try:
        func = from_source(function)
    except TunefarmError:
        return None
    if not isinstance(func, PrimFunc):
        return None
    total = 0
    for buffer in func.buffer_map.values():
        size = parse_dtype(buffer.dtype).bytes
        for extent in buffer.shape:
            known = as_int(extent)
            if known is None:
                return None
            size *= known
        total += size
    return total or None
