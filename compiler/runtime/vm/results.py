"""Memory for results of functions: quick to allocate, freed with the last array in it."""

from __future__ import annotations

import threading

import numpy as np

from compiler.runtime.core.host import ALIGNMENT
from compiler.runtime.core.ndarray import ArrayKind, NDArray, empty

_BLOCK = 1 << 16
_SMALL = 1 << 12  # results up to this size share blocks


class ResultMemory:
    """Makes arrays for results.
    Small ones of one thread are parts of a block, which is freed with the last of them."""

    def __init__(self) -> None:
        self._of_thread = _Block()

    def take(self, kind: ArrayKind) -> NDArray:
        """An array with undefined contents."""
        nbytes = kind.nbytes
        if nbytes > _SMALL:
            return empty(kind.shape, kind.dtype)
        block = self._of_thread
        offset = block.used
        if offset + nbytes > _BLOCK:
            block.renew()
            offset = 0
        block.used = offset + (nbytes + ALIGNMENT - 1 & -ALIGNMENT)
        return NDArray.part(kind, block.data, block.start + offset, block.address + offset)


class _Block(threading.local):
    """A thread's block: memory of which the first `used` bytes from `start` on are taken."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        self.data = np.empty(_BLOCK + ALIGNMENT, np.uint8)
        address: int = self.data.ctypes.data
        self.start = -address % ALIGNMENT
        self.address = address + self.start
        self.used = 0
