"""Which decisions of a GPU tile are worth building, and a draft of how fast they are.

The draft is a roofline of one multiprocessor. Arithmetic, shared memory and memory each take cycles for one step of
a block. The longest hides the others as far as there are enough warps to take turns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tuner.space.gpu.hardware import MAX_GRID_YZ, WARP, Chip, roofline
from tuner.space.sketch import Values

_SHARED_BYTES = 128  # that shared memory gives in a cycle
_BASE_REGISTERS = 32  # addresses, counters
_ENOUGH_WARPS = 12  # on one multiprocessor, with several results each, to hide what a load takes
_LEAST_THREADS = 32
_MOST_UNROLLED = 2048  # multiply-adds written out: longer code no longer fits the instruction cache


@dataclass(frozen=True, slots=True)
class TileJudge:
    """Judges tiles of a product of `sizes` (b, m, n, k), of operands of `element` bytes."""

    sizes: tuple[int, int, int, int]
    element: int
    double: bool
    parts: bool
    chip: Chip

    def allowed(self, values: Values) -> bool:
        """Return whether threads, registers, shared memory and the grid are within the limits.
        At least half of a tile must be work."""
        batch, m, n, _ = self.sizes
        threads = values["ty"] * values["tx"]
        if not _LEAST_THREADS <= threads <= self.chip.block_threads or threads % WARP:
            return False
        if values["rows"] * values["columns"] * values["depth"] > _MOST_UNROLLED:
            return False
        if self.chip.resident(threads, self.registers(values), self.shared(values)) < 1:
            return False
        rows, columns = self._tile(values)
        if rows >= 2 * max(m, 4) or columns >= 2 * max(n, 8):
            return False
        return -(-m // rows) <= MAX_GRID_YZ and batch * values.get("parts", 1) <= MAX_GRID_YZ

    def registers(self, values: Values) -> int:
        """Return the registers of a thread.
        They hold sums, a column of A, a row of B, and what is on its way to shared memory."""
        rows, columns = values["rows"], values["columns"]
        tile = sum(self._tile(values)) * values["depth"] // (values["ty"] * values["tx"])
        fetched = -(-tile * self.element // 4)
        return _BASE_REGISTERS + rows * columns + rows + columns + fetched

    def shared(self, values: Values) -> int:
        rows, columns = self._tile(values)
        padded = (-(-rows // 32) * 32 + 4) + (-(-columns // 32) * 32 + 4)
        return padded * values["depth"] * self.element * (2 if self.double else 1)

    def draft(self, values: Values) -> float:
        """Return the share of what the GPU could do, by the roofline above."""
        batch, m, n, k = self.sizes
        rows, columns = self._tile(values)
        threads, depth = values["ty"] * values["tx"], values["depth"]
        parts = values.get("parts", 1)
        blocks = batch * parts * -(-m // rows) * -(-n // columns)
        resident = self.chip.resident(threads, self.registers(values), self.shared(values))
        if not resident:
            return 0.0
        products = rows * columns * depth
        arithmetic = products / self.chip.fmas
        # half of a warp asks for the same
        reads = (values["rows"] + values["columns"]) * threads * depth * self.element
        shared = (reads / 4 + (rows + columns) * depth * self.element) / _SHARED_BYTES
        memory = (rows + columns) * depth * self.element / (self.chip.memory / self.chip.multiprocessors)
        memory /= 2  # neighbouring blocks find half of it in the second-level cache
        hidden = min(1.0, resident * threads / WARP / _ENOUGH_WARPS)
        cycles = roofline((arithmetic, shared, memory), 0.8 * hidden) + (10 if self.double else 30) / resident
        useful = m / (-(-m // rows) * rows) * n / (-(-n // columns) * columns)
        steps = math.ceil(k / parts / depth)
        ramp = steps / (steps + 4)
        again = 1.0 / (1.0 + 8 * parts / k) if self.parts else 1.0  # parts are written, read and added up
        return min(1.0, arithmetic / cycles * useful * ramp * again * self.chip.filled(blocks, resident))

    def _tile(self, values: Values) -> tuple[int, int]:
        return values["ty"] * values["rows"], values["tx"] * values["columns"]
