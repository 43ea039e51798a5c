"""The methods of a schedule that copy, lay out and pad buffers. What each step does stands at its primitive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compiler.errors import ScheduleError
from compiler.schedule.core.map_text import MapLike, map_text, pad_text
from compiler.schedule.core.recorder import Recorder, all_of, one
from compiler.schedule.core.rv import Block, BlockRV, ExprRV, LoopRV
from compiler.tir import nodes as n

BufferOf = tuple[str, int] | str | n.Buffer  # a buffer of a block: ("read" or "write", index), its name, or itself


class BufferSteps(Recorder):
    """What `Schedule` can do with buffers."""

    def read_index(self, block: Block, buffer_name: str) -> int:
        """The position of the buffer called `buffer_name` among the reads of `block`. Not a step."""
        return _index(self.get(block).reads, buffer_name, "read")

    def write_index(self, block: Block, buffer_name: str) -> int:
        """The position of the buffer called `buffer_name` among the writes of `block`. Not a step."""
        return _index(self.get(block).writes, buffer_name, "written")

    def cache_read(
        self,
        block: Block,
        read_buffer_index: int | str | n.Buffer,
        storage_scope: str,
        consumer_blocks: Sequence[Block] = (),
    ) -> BlockRV:
        """Read a copy of a buffer, made in `storage_scope`; returns the copying block."""
        index = _index(self.get(block).reads, read_buffer_index, "read")
        attrs: dict[str, Any] = {"read_buffer_index": index, "storage_scope": storage_scope}
        return one(BlockRV, self.take("cache_read", (block, *consumer_blocks), **attrs))

    def cache_write(
        self, block: Block, write_buffer_index: int | str | n.Buffer, storage_scope: str
    ) -> BlockRV:
        """Compute into a buffer in `storage_scope` and copy it out; returns the copying block."""
        index = _index(self.get(block).writes, write_buffer_index, "written")
        attrs: dict[str, Any] = {"write_buffer_index": index, "storage_scope": storage_scope}
        return one(BlockRV, self.take("cache_write", (block,), **attrs))

    def cache_inplace(
        self, block: Block, read_buffer_index: int | str | n.Buffer, storage_scope: str
    ) -> list[BlockRV]:
        """Let `block` read and write a copy of one buffer; returns the blocks that copy it there and back."""
        index = _index(self.get(block).reads, read_buffer_index, "read")
        attrs: dict[str, Any] = {"read_buffer_index": index, "storage_scope": storage_scope}
        return all_of(BlockRV, self.take("cache_inplace", (block,), **attrs))

    def cache_index(self, block: Block, storage_scope: str, cse_thresh: int = 0) -> list[BlockRV]:
        """Compute the indices in `block` ahead of it; returns the blocks that do, one an index."""
        attrs: dict[str, Any] = {"storage_scope": storage_scope, "cse_thresh": cse_thresh}
        return all_of(BlockRV, self.take("cache_index", (block,), **attrs))

    def reindex(self, block: Block, buffer: BufferOf) -> BlockRV:
        """Use a buffer of `block` through a copy indexed by the block's axes; returns the copying block."""
        kind, index = self._find_buffer(block, buffer)
        attrs: dict[str, Any] = {"buffer_index": index, "buffer_index_type": kind}
        return one(BlockRV, self.take("reindex", (block,), **attrs))

    def reindex_cache_read(
        self,
        block: Block,
        read_buffer_index: int | str | n.Buffer,
        storage_scope: str,
        index_map: MapLike,
    ) -> BlockRV:
        """Read a copy of a buffer in `storage_scope`, at `index_map` of `block`'s axes; returns the copying block."""
        found = self.get(block)
        index = _index(found.reads, read_buffer_index, "read")
        text = map_text("reindex_cache_read", index_map, len(found.iter_vars))
        attrs: dict[str, Any] = {"read_buffer_index": index, "storage_scope": storage_scope, "index_map": text}
        return one(BlockRV, self.take("reindex_cache_read", (block,), **attrs))

    def reindex_cache_write(
        self,
        block: Block,
        write_buffer_index: int | str | n.Buffer,
        storage_scope: str,
        index_map: MapLike,
    ) -> BlockRV:
        """Write a buffer in `storage_scope`, at `index_map` of `block`'s axes; returns the block that copies it out."""
        found = self.get(block)
        index = _index(found.writes, write_buffer_index, "written")
        text = map_text("reindex_cache_write", index_map, len(found.iter_vars))
        attrs: dict[str, Any] = {"write_buffer_index": index, "storage_scope": storage_scope, "index_map": text}
        return one(BlockRV, self.take("reindex_cache_write", (block,), **attrs))

    def set_scope(self, block: Block, buffer_index: int | str | n.Buffer, storage_scope: str) -> None:
        """Keep a buffer that `block` writes in `storage_scope`."""
        index = _index(self.get(block).writes, buffer_index, "written")
        self.take("set_scope", (block,), buffer_index=index, storage_scope=storage_scope)

    def unsafe_set_dtype(self, block: Block, buffer_index: int | str | n.Buffer, dtype: str) -> None:
        """Keep a buffer that `block` writes in `dtype`, which may change the result."""
        index = _index(self.get(block).writes, buffer_index, "written")
        self.take("unsafe_set_dtype", (block,), buffer_index=index, dtype=dtype)

    def storage_align(
        self, block: Block, buffer_index: int, axis: int, factor: int, offset: int
    ) -> None:
        """Set neighbours along `axis` of a buffer that `block` writes a multiple of `factor`, plus `offset`, apart."""
        attrs: dict[str, Any] = {"buffer_index": buffer_index, "axis": axis, "factor": factor, "offset": offset}
        self.take("storage_align", (block,), **attrs)

    def rolling_buffer(self, block: Block, write_buffer_index: int | str | n.Buffer) -> None:
        """Keep a window of a buffer that `block` writes, and compute only what each iteration adds to it."""
        index = _index(self.get(block).writes, write_buffer_index, "written")
        self.take("rolling_buffer", (block,), write_buffer_index=index)

    # ----------------------------------------------------------------------------- layouts

    def transform_layout(
        self,
        block: Block,
        buffer: BufferOf,
        index_map: MapLike,
        pad_value: MapLike | n.PrimExpr | float | None = None,
        *,
        assume_injective_transform: bool = False,
        sizes: Sequence[int | ExprRV] = (),
    ) -> None:
        """Lay out anew a buffer of `block`: element [i, j] moves to `index_map(i, j, *sizes)`, and places without an
        element hold `pad_value`, a number or a function of the place."""
        kind, index = self._find_buffer(block, buffer)
        regions = self.get(block).writes if kind == "write" else self.get(block).reads
        rank = len(regions[index].buffer.shape) if 0 <= index < len(regions) else 0
        text = map_text("transform_layout", index_map, rank + len(sizes))
        attrs: dict[str, Any] = {
            "buffer_index": index, "buffer_index_type": kind, "index_map": text,
            "pad_value": pad_text("transform_layout", pad_value, text),
            "assume_injective_transform": assume_injective_transform,
        }  # fmt: skip
        self.take("transform_layout", (block, *sizes), **attrs)

    def transform_block_layout(self, block: Block, index_map: MapLike) -> None:
        """Give `block` axes and loops at `index_map` of those it has."""
        text = map_text("transform_block_layout", index_map, len(self.get(block).iter_vars))
        self.take("transform_block_layout", (block,), index_map=text)

    # ----------------------------------------------------------------------------- padding

    def pad_einsum(self, block: Block, padding: Sequence[int]) -> None:
        """Round the extents of `block`'s axes up to multiples of `padding`, with zeros around what it reads."""
        self.take("pad_einsum", (block,), padding=tuple(map(int, padding)))

    def winograd(self, block: Block, tile: int = 2, band: int = 0, multiple: int = 1) -> list[BlockRV]:
        """Compute a convolution by fast filters, in tiles of `tile` × `tile` results, `band` rows of tiles at a time
        (0: all), a multiple of `multiple`; returns the blocks that do, the last is `block`."""
        return all_of(BlockRV, self.take("winograd", (block,), tile=tile, band=band, multiple=multiple))

    def decompose_padding(self, block: Block, loop: LoopRV) -> BlockRV:
        """Fill what `block` pads with its constant before `loop`, and copy only what is inside; returns the block
        that fills."""
        return one(BlockRV, self.take("decompose_padding", (block, loop)))

    def _find_buffer(self, block: Block, buffer: BufferOf) -> tuple[str, int]:
        """Where the buffer is among those that `block` writes, or else reads."""
        if isinstance(buffer, tuple):
            return buffer
        found = self.get(block)
        for at, region in enumerate(found.writes):
            if region.buffer is buffer or region.buffer.name == buffer:
                return "write", at
        return "read", _index(found.reads, buffer, "read or written")


def _index(regions: tuple[n.BufferRegion, ...], buffer: int | str | n.Buffer, how: str) -> int:
    if isinstance(buffer, int):
        return buffer
    for index, region in enumerate(regions):
        if region.buffer is buffer or region.buffer.name == buffer:
            return index
    known = ", ".join(r.buffer.name for r in regions) or "none"
    name = buffer if isinstance(buffer, str) else buffer.name
    raise ScheduleError(f"buffer {name!r} is not {how} by the block", hint=f"these are: {known}")
