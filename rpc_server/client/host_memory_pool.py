"""Host memory for arrays that come back from a box; memory that nobody holds is used again.

The kernel clears and maps fresh memory as it is touched. Without free huge pages, that takes several times as long
as the copy itself.
"""

from __future__ import annotations

import weakref
from functools import partial
from typing import Any

import numpy as np

_WORTH_KEEPING = 1 << 20
_MOST_KEPT = 256 << 20

Block = np.ndarray[Any, np.dtype[np.uint8]]


class HostMemoryPool:
    """The pool of one session. At most 256 MiB wait to be used again, and none once the session is over."""

    def __init__(self) -> None:
        self._free: dict[int, Block] = {}  # by identity; those that came back first stand first
        self._out: dict[int, weakref.ref[Block]] = {}

    def take(self, nbytes: int) -> memoryview | None:
        """Memory that comes back when its last view is gone.
        None where ordinary memory will do as well."""
        if not _WORTH_KEEPING <= nbytes <= _MOST_KEPT:
            return None
        block = self._fitting(nbytes)
        if block is None:
            block = np.empty(nbytes, np.uint8)
        # Arrays made from views of `held` keep `held`, not only the memory that it is a view of.
        held = block[:nbytes]
        self._out[id(block)] = weakref.ref(held, partial(self._came_back, block))
        return held.data

    def close(self) -> None:
        """Keep nothing any more, now or later."""
        self._out.clear()
        self._free.clear()

    def _fitting(self, nbytes: int) -> Block | None:
        """A free block of that size or a little more.
        It is the last one that came back, which is likeliest in a cache."""
        for key, block in reversed(list(self._free.items())):
            if nbytes <= block.nbytes <= nbytes + nbytes // 4:
                return self._free.pop(key, None)
        return None

    def _came_back(self, block: Block, _: object) -> None:
        """Take back a block. It takes no lock, because it may run at any point of any thread."""
        if self._out.pop(id(block), None) is None:
            return
        self._free[id(block)] = block
        while sum(kept.nbytes for kept in list(self._free.values())) > _MOST_KEPT:
            self._free.pop(next(iter(self._free)), None)
