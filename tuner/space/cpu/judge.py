"""Which decisions of a contraction's sketch are worth building, and a draft of their speed."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tuner.space.analysis import BlockInfo
from tuner.space.cpu.balance import balance
from tuner.space.cpu.contraction_sizes import MEMORY_BOUND, STREAM_BYTES, ContractionShape
from tuner.space.cpu.hardware import Hardware, has_masks
from tuner.space.cpu.pixels import STREAMS
from tuner.space.cpu.roles import Roles, window_axes
from tuner.space.sketch import Values

_LINE = 64  # bytes that come from memory at once
_BUSY = 8  # accumulators that keep two multiply-add units busy
_LONG_STREAM = 4096  # bytes read in one go: what prefetchers follow ends with a page
_FEW = 16  # streams that prefetchers follow
_MANY_REGISTERS = 32
_LEAST_ROWS = 4  # of a tile of packed weights, each of which is loaded once for them


@dataclass(frozen=True)
class Judge:
    """Judges the decisions of one sketch."""

    info: BlockInfo
    roles: Roles
    shape: ContractionShape
    hardware: Hardware
    element_bytes: int

    def allowed(self, values: Values) -> bool:
        """Whether a tile fits.
        The accumulators and one operand vector fit the registers; with many registers, everything in use does.
        Panels fit the L2 cache and are not much wider than their axis; padded axes are cut in whole tiles."""
        rows, vectors = values["rows"], values["vectors"]
        if rows * vectors + self._beside_sums(rows, vectors) > self.hardware.registers:
            return False
        if self.shape.padded and not self._whole_tiles(values):
            return False
        if len(self.info.inputs) == 1 and not self._masks_known(values):
            return False
        if self._width(values) >= 2 * self.roles.v.extent and values.get("panel", 1) > 1:
            return False
        if values.get("chunk", 1) > 1 and rows * values["chunk"] >= 2 * self._rows_extent():
            return False
        if values.get("unroll", 1) > values.get("depth", 8):
            return False
        if self.shape.streams and not self._streams_on(values):
            return False
        if self.shape.deep and len(self.info.inputs) == 1 and not self._reads_on(values):
            return False
        if self.shape.blocked and not self._keeps_near(values):
            return False
        if self._is_memory_bound() and not self._loads_few(values):
            return False
        packed = self._panel_bytes(values) if self.shape.pack else 0
        packed += self._chunk_bytes(values) if self.shape.pack_rows else 0
        return packed <= 4 * self.hardware.l2_bytes

    def _beside_sums(self, rows: int, vectors: int) -> int:
        """Count the registers of a tile besides its sums.
        They are one operand's vectors, which all rows use, and the other's element in all lanes. With one row or one
        vector, either is part of the instruction. One register too few means a stored and loaded sum in each step.
        With 16 registers so few tiles are left that those are tried, too. Rows of the image in which windows of
        several rows overlap stay in registers, too."""
        if rows > 1 and (window := window_axes(self.info, self.roles)):
            return vectors * (self._step() * (rows - 1) + window[-1].extent) + 1
        shared = self.roles.vector_operand is not None and self.roles.scalar_operand is not None
        if self.hardware.registers < _MANY_REGISTERS or not shared or 1 in (rows, vectors):
            return 1
        return vectors + 1

    def _masks_known(self, values: Values) -> bool:
        """Whether every second element is loaded fast: by a constant mask, or for one vector at a time.
        Pooling does little else."""
        tile = values["vectors"] * self.hardware.lanes
        return (
            self._step() == 1 or values["vectors"] == 1 or self.roles.v.extent % tile == 0 or tile > self.roles.v.extent
        )

    def _step(self) -> int:
        """The distance between what neighbouring columns read; rows of a window are as far apart."""
        operand = self.roles.vector_operand
        return 1 if operand is None else max(1, dict(self.info.inputs[operand].steps).get(self.roles.v.position, 1))

    def _keeps_near(self, values: Values) -> bool:
        """Whether blocks of a sum fit the caches.
        Tiles run down a chunk of rows. It stays in the second-level cache while all columns of a panel pass, and the
        columns of one tile stay in the first. The panel itself may lie beyond both."""
        chunk_near = self._chunk_bytes(values) <= self.hardware.l2_bytes
        return chunk_near and self._sliver_bytes(values) <= self.hardware.l1_bytes

    def _is_memory_bound(self) -> bool:
        """Whether packed weights are used for so few rows that loading takes as long as using them."""
        return self.shape.ahead and self.shape.pack and 1 < self._rows_extent() <= MEMORY_BOUND

    def _loads_few(self, values: Values) -> bool:
        """Whether a tile multiplies more often than it loads, where there is room for such tiles."""
        rows, vectors = values["rows"], values["vectors"]
        wide = min(2, -(-self.roles.v.extent // self.hardware.lanes))
        return vectors >= wide and rows >= min(self._rows_extent(), _LEAST_ROWS)

    def _blocking(self, values: Values) -> float:
        """Penalise what blocks of a sum cost.
        Each block loads and stores its results. Each chunk of rows brings the columns of a tile near again, and half
        of the first-level cache is left to other data."""
        rows = values["rows"] * values["chunk"]
        tight = 1.0 if self._sliver_bytes(values) <= self.hardware.l1_bytes // 2 else 0.9
        return tight * values["depth"] / (values["depth"] + 16) * rows / (rows + 4)

    def _reads_on(self, values: Values) -> bool:
        """Score a sum of columns, which uses nothing twice.
        It is as fast as memory, which favours whole pages of few rows."""
        part = -(-self.roles.v.extent // self.hardware.threads) * self.element_bytes
        return values["depth"] <= _FEW and self._width(values) * self.element_bytes >= min(part, _LONG_STREAM)

    def draft(self, values: Values) -> float:
        """Relative speed guessed from arithmetic per load, latency hiding, waste on tails, and thread balance."""
        rows, vectors = values["rows"], values["vectors"]
        tile_ops = rows * vectors
        waste = _tail(self.roles.v.extent, vectors * self.hardware.lanes) * _tail(self._rows_extent(), rows)
        waste *= self._filled()
        latency = min(1.0, tile_ops / 10)
        loads = 1.0 / (1.0 + self._loads(rows, vectors))
        spill = 1.0 if tile_ops + vectors + 1 <= self.hardware.registers else 0.7
        return waste * latency * loads * spill * self._caching(values) * self._balance(values)

    def _loads(self, rows: int, vectors: int) -> float:
        """Half of what a tile loads for each vector of products.
        In a window each row of the image is loaded once for all rows of the tile."""
        if rows > 1 and (window := window_axes(self.info, self.roles)):
            high = window[-1].extent
            return 2 * (self._step() * (rows - 1) + high) / (rows * high)
        return 0.5 * (rows + vectors) / (rows * vectors)

    def _filled(self) -> float:
        """The useful part of the vectors' work.
        A remainder is computed element by element, or, with vectors of 64 bytes, by a masked one."""
        if has_masks(self.hardware, self.info.output.buffer.dtype):
            return 1.0
        full, rest = divmod(self.roles.v.extent, self.hardware.lanes)
        return self.roles.v.extent / self.hardware.lanes / (full + rest)

    def _caching(self, values: Values) -> float:
        """Panels in the L2 cache; few passes over what is not packed."""
        if not self.shape.pack:
            return self._streaming(values)
        if self.shape.blocked:
            near = self._blocking(values)
        else:
            near = 1.0 if self._panel_bytes(values) <= self.hardware.panel_bytes else 0.85
        if self.shape.pack_rows:  # copying a row panel costs an element's load and store for each panel of columns
            near *= self._width(values) / (self._width(values) + 16)
        if (bands := values.get("bands", 1)) > 1:  # and a panel of columns for each band of rows
            near *= self._rows_extent() / (self._rows_extent() + 8 * bands)
        return near

    def _streaming(self, values: Values) -> float:
        """Return how fast an operand is read in place: fast in long rows, few at a time, in whole lines.
        The second of two tiles that share a line may find its part gone."""
        row = values["vectors"] * self.hardware.lanes * self.element_bytes
        lines = row / (-(-row // _LINE) * _LINE)
        if self._depth(values) > STREAMS:  # a block of a deep reduction can be shorter, the whole of another cannot
            return lines * (0.5 if self.shape.deep else 0.8)
        return lines * self._width(values) / (self._width(values) + 16 * self._depth(values))

    def _streams_on(self, values: Values) -> bool:
        """Whether rows of a matrix are read far enough in one go.
        Kept sums must also be enough to keep the arithmetic busy, and the sums of a panel stay in the second-level
        cache."""
        row = self._width(values) * self.element_bytes
        if self.shape.kept:
            busy = values["rows"] * values["vectors"] >= _BUSY
            if not busy or row * self._rows_extent() > self.hardware.l2_bytes:
                return False
        share = self.roles.v.extent // self.hardware.threads
        return row >= min(share * self.element_bytes, STREAM_BYTES)

    def _whole_tiles(self, values: Values) -> bool:
        width = values["vectors"] * self.hardware.lanes
        return self.roles.v.extent % width == 0 and self._rows_extent() % values["rows"] == 0

    def _rows_extent(self) -> int:
        return 1 if self.roles.m is None else self.roles.m.extent

    def _width(self, values: Values) -> int:
        """Return the width of a panel; a panel of all columns has its own size."""
        tile = values["vectors"] * self.hardware.lanes
        return values["panel"] * tile if "panel" in values else -(-self.roles.v.extent // tile) * tile

    def _depth(self, values: Values) -> int:
        return values.get("depth", math.prod(a.extent for a in self.info.reduced))

    def _panel_bytes(self, values: Values) -> int:
        return self._width(values) * self._depth(values) * self.element_bytes

    def _sliver_bytes(self, values: Values) -> int:
        """Return the bytes of the columns of one tile."""
        return values["vectors"] * self.hardware.lanes * self._depth(values) * self.element_bytes

    def _chunk_bytes(self, values: Values) -> int:
        return values["rows"] * values.get("chunk", 1) * self._depth(values) * self.element_bytes

    def _balance(self, values: Values) -> float:
        """How evenly the outer tiles spread over the threads."""
        if self.shape.rows_outer:
            extent, tile = self._rows_extent(), values["rows"]
        else:
            extent, tile = self.roles.v.extent, self._width(values)
        others = math.prod(a.extent for a in self.roles.others) // values.get("block", 1) * values.get("bands", 1)
        others = 1 if self.shape.across else others
        whole, rest = divmod(extent, tile)
        return float(balance(whole * others, others if rest else 0, rest / tile, self.hardware.threads))


def _tail(extent: int, tile_size: int) -> float:
    return extent / (-(-extent // tile_size) * tile_size)
