"""A cache of rows that grows: the keys or values that a decoder has seen."""

from __future__ import annotations

import sys
from typing import Any

from compiler.errors import ArgumentError
from compiler.runtime.core.ndarray import NDArray, empty
from compiler.runtime.core.values import ShapeTuple
from compiler.runtime.vm.builtins import VMError, builtin


class AttentionKVCache:
    """Rows of one shape, `count` of them. There is memory for more, and it doubles when it is full."""

    def __init__(self, rows: NDArray, count: int) -> None:
        """Rows of which the first `count` are filled. They are taken over, not copied."""
        self._rows = rows
        self.count = count

    def append(self, new: NDArray) -> None:
        """Copy rows to the end. Raises ArgumentError for others than the cache holds."""
        unit = self._rows.shape[1:]
        if new.ndim != self._rows.ndim or new.shape[1:] != unit or new.dtype != self._rows.dtype:
            held = f"{self._rows.dtype}{list(unit)}"
            raise ArgumentError(f"rows of {new.dtype}{list(new.shape)} do not fit a cache of {held}")
        total = self.count + new.shape[0]
        if total > self._rows.shape[0]:
            self._grow(max(total, 2 * self._rows.shape[0]))
        if new.shape[0]:
            self._part(self.count, new.shape[0]).copyfrom(new)
        self.count = total

    def view(self, shape: tuple[int, ...]) -> NDArray:
        """The first rows as an array of `shape` over the same memory.
        Raises ArgumentError if there are not so many."""
        if shape[1:] != self._rows.shape[1:] or not 0 <= shape[0] <= self.count:
            filled = (self.count, *self._rows.shape[1:])
            raise ArgumentError(f"a view of shape {shape} of a cache that holds {filled}")
        return self._rows._create_view(shape)

    def drop(self, count: int) -> None:
        """Forget the last `count` rows."""
        if not 0 <= count <= self.count:
            raise ArgumentError(f"{count} rows are dropped from a cache of {self.count}")
        self.count -= count

    def _grow(self, rows: int) -> None:
        """Move to memory for `rows` rows. Views that were given keep the old one."""
        old, count = self._rows, self.count
        self._rows = empty((rows, *old.shape[1:]), old.dtype, old.device)
        if count:
            self._part(0, count).copyfrom(old._create_view((count, *old.shape[1:])))

    def _part(self, start: int, count: int) -> NDArray:
        whole = self._rows
        row_bytes = whole.nbytes // whole.shape[0]
        return whole._create_view((count, *whole.shape[1:]), relative_byte_offset=start * row_bytes)


def _cache(value: Any) -> AttentionKVCache:
    if not isinstance(value, AttentionKVCache):
        raise VMError(f"a cache of rows is wanted, not a {type(value).__name__}")
    return value


@builtin("vm.builtin.attention_kv_cache_create")
def create(first: NDArray, shape: ShapeTuple, count: int) -> AttentionKVCache:
    """A cache with memory of `shape`, whose first `count` rows are those of `first`."""
    extents = tuple(shape)
    fits = len(extents) == first.ndim and extents[1:] == first.shape[1:]
    if not fits or not 0 <= count <= min(extents[0], first.shape[0]):
        raise ArgumentError(f"a cache of {extents} with {count} rows of an array of shape {first.shape}")
    if not extents[0]:
        raise ArgumentError("a cache without room for a row")
    rows = empty(extents, first.dtype, first.device)
    made = AttentionKVCache(rows, 0)
    if count:
        made.append(first._create_view((count, *first.shape[1:])))
    return made


@builtin("vm.builtin.attention_kv_cache_append")
def append(cache: Any, new: NDArray) -> AttentionKVCache:
    """Add rows to a cache; the cache itself."""
    found = _cache(cache)
    found.append(new)
    return found


@builtin("vm.builtin.attention_kv_cache_view")
def view(cache: Any, shape: ShapeTuple | None = None) -> NDArray:
    """The first rows of a cache, over the same memory; without `shape`, all of them."""
    found = _cache(cache)
    return found.view(tuple(shape) if shape is not None else (found.count, *found._rows.shape[1:]))


@builtin("vm.builtin.attention_kv_cache_array_clear")
def clear(caches: tuple[Any, ...]) -> None:
    """Forget all rows of some caches."""
    for cache in caches:
        _cache(cache).count = 0


@builtin("vm.builtin.attention_kv_cache_array_popn")
def popn(caches: tuple[Any, ...], count: int) -> None:
    """Forget the last rows of some caches."""
    for cache in caches:
        _cache(cache).drop(int(count))


@builtin("vm.builtin.debug_print")
def debug_print(state: Any, value: Any) -> Any:
    """Write an array to standard output; the state that orders what is written."""
    shown = value.numpy() if isinstance(value, NDArray) else value
    sys.stdout.write(f"{shown}\n")
    return state
