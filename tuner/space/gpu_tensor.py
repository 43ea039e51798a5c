"""Sketches of products on tensor cores: what a block of warps computes, how it is cut, how far copies run ahead.

The kernel is that of `compiler.lower.tensor_core`; a trace says its tile by annotations.
"""

from __future__ import annotations

from dataclasses import dataclass

from compiler.errors import IRError
from compiler.lower.tensor_core import WarpTile
from compiler.lower.warp_products import WARP_TILE, product_of
from compiler.schedule.schedule import Schedule
from compiler.tir.nodes import PrimFunc
from tuner.space.analysis import blocks_of
from tuner.space.gpu_hardware import WARP, Chip
from tuner.space.recorder import Recorder
from tuner.space.sketch import Sketch, Values

_TILES = (16, 32, 64, 128, 256)
_DEPTHS = (16, 32, 64)
_WARPS = (1, 2, 4)
_STAGES = (2, 3, 4, 5)
_MOST_SUMS = 128  # of a thread: half of its registers
_BASE_REGISTERS = 40
_RATE = 16  # how many times faster than float32 the products are


def tensor_sketch(func: PrimFunc, chip: Chip) -> Sketch | None:
    """The sketch of a function that is a plain product of float16 or bfloat16 matrices; else None."""
    found = product_of(func)
    if found is None:
        return None
    sizes, _, _ = found
    m, n, k = sizes
    rows, columns = (tuple(t for t in _TILES if size % t == 0) for size in (m, n))
    depths = tuple(d for d in _DEPTHS if k % d == 0)
    if not rows or not columns or not depths:
        return None
    sch = Schedule(func)
    recorder = Recorder(sch)
    block = sch.get_block(blocks_of(func)[0].name)
    values = {"m": rows, "n": columns, "k": depths, "warps_m": _WARPS, "warps_n": _WARPS, "stages": _STAGES}
    for name, choices in values.items():
        sch.annotate(block, WARP_TILE + name, recorder.choose(name, choices).rv)
    judge = WarpJudge(sizes, chip)
    return Sketch("mma", sch.trace, tuple(recorder.decisions), judge.allowed, judge.draft)


@dataclass(frozen=True, slots=True)
class WarpJudge:
    """Judges tiles of warps."""

    sizes: tuple[int, int, int]
    chip: Chip

    def allowed(self, values: Values) -> bool:
        """The kernel can be made of the tile; its sums fit the registers, its stages shared memory."""
        tile = _tile(values)
        try:
            tile.check(*self.sizes)
        except IRError:
            return False
        return _sums(tile) <= _MOST_SUMS and self._resident(tile) >= 1

    def draft(self, values: Values) -> float:
        """A roofline: products, operands from shared memory to registers, tiles from outside to shared memory."""
        tile = _tile(values)
        rows, columns = tile.warp
        blocks = self.sizes[0] // tile.m * (self.sizes[1] // tile.n)
        resident = self._resident(tile)
        products = tile.m * tile.n * tile.k / (_RATE * self.chip.fmas)
        warps = tile.warps[0] * tile.warps[1]
        shared = 2 * (rows + columns) * tile.k * warps / 128
        memory = 2 * (tile.m + tile.n) * tile.k / (2 * self.chip.memory / self.chip.multiprocessors)
        hidden = min(1.0, tile.stages * resident / 4)
        longest, rest = max(products, shared, memory), products + shared + memory
        cycles = longest + (1 - 0.8 * hidden) * (rest - longest) + 20 / resident
        steps = self.sizes[2] // tile.k
        return min(1.0, products / cycles * steps / (steps + tile.stages) * self.chip.filled(blocks, resident))

    def _resident(self, tile: WarpTile) -> int:
        rows, columns = tile.warp
        registers = _BASE_REGISTERS + _sums(tile) + rows // 4 + columns // 4
        return self.chip.resident(tile.threads, registers, tile.shared_bytes)


def _tile(values: Values) -> WarpTile:
    warps = values["warps_m"], values["warps_n"]
    return WarpTile(values["m"], values["n"], values["k"], warps, values["stages"])


def _sums(tile: WarpTile) -> int:
    """Of a thread."""
    rows, columns = tile.warp
    return rows * columns // WARP
