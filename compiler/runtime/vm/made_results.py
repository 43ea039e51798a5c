"""Results whose shape is found at run time.

The function allocates their memory, and reports it in a cell.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from compiler.artifact import EntryPoint, MadeResult
from compiler.runtime.core import native
from compiler.runtime.core.ndarray import ArrayKind, NDArray, empty

_HEAD = 2  # words of a cell before the extents: the address, and how many bytes are there


class MadeResults:
    """The results for which an entry allocates memory, by the number of the result."""

    def __init__(self, entry: EntryPoint) -> None:
        first = len(entry.args) - entry.results
        self._made: Mapping[int, MadeResult] = {result.index - first: result for result in entry.made}

    def begin(self, outs: Sequence[NDArray]) -> None:
        """Empty the cells among the arrays for results."""
        for number in self._made:
            _words(outs[number])[:_HEAD] = 0

    def taken(self, outs: Sequence[NDArray]) -> list[NDArray]:
        """Return the results after a call, with arrays in place of the cells. Their memory is freed with them."""
        return [self._taken(out, self._made.get(number)) for number, out in enumerate(outs)]

    def _taken(self, out: NDArray, made: MadeResult | None) -> NDArray:
        if made is None:
            return out
        address, room, *extents = map(int, _words(out))
        kind = ArrayKind.of(tuple(extents), made.dtype)
        if not kind.nbytes:
            self._free(out)
            return empty(kind.shape, kind.dtype)
        assert kind.nbytes <= room
        block = (ctypes.c_uint8 * room).from_address(address)
        weakref.finalize(block, native.load().free, address)
        _words(out)[:_HEAD] = 0
        return NDArray.part(kind, np.frombuffer(memoryview(block).cast("B"), np.uint8), 0, address)

    def drop(self, outs: Sequence[NDArray]) -> None:
        """Free what the cells hold."""
        for number in self._made:
            self._free(outs[number])

    def _free(self, out: NDArray) -> None:
        words = _words(out)
        if words[0]:
            native.load().free(int(words[0]))
        words[:_HEAD] = 0

    def drop_with(self, holder: object, outs: Sequence[NDArray]) -> None:
        """Free the memory in the cells when a repeated call is no longer held."""
        if self._made:
            weakref.finalize(holder, self.drop, list(outs))


def _words(out: NDArray) -> Any:
    """A cell as numbers."""
    assert out._view is not None
    return out._view
