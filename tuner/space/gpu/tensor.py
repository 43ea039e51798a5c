"""Sketches of products on tensor cores.

What a block of warps computes, its tiles, and how far copies run ahead.

The kernel is that of `compiler.tensorcore.tensor_core`; a trace gives its tile by annotations.
"""

from __future__ import annotations

from dataclasses import dataclass

from compiler.errors import IRError
from compiler.schedule.core.schedule import Schedule
from compiler.tensorcore.tensor_core import WarpTile
from compiler.tensorcore.warp_form import WarpProduct
from compiler.tensorcore.warp_match import warp_product
from compiler.tensorcore.warp_products import WARP_TILE
from compiler.tir.nodes import PrimFunc
from tuner.space.analysis import blocks_of
from tuner.space.gpu.hardware import MAX_GRID_YZ, WARP, Chip, roofline
from tuner.space.recorder import Recorder
from tuner.space.sketch import Sketch, Values

_TILES = (16, 32, 64, 128, 256)
_DEPTH_BYTES = (32, 64, 128)  # along k, of one step
_WARPS = (1, 2, 4)
_STAGES = (2, 3, 4, 5)
_MOST_SUMS = 128  # of a thread: half of its registers
_BASE_REGISTERS = 40
_GATHER_REGISTERS = 3  # for each element that a thread gathers: itself, and its address
_GATHER_CYCLES = 1 / 8  # of a multiprocessor for each: its address, its condition, its load
_RATE = 16  # how many times faster than float32 products of 16 bits are; of bytes, twice as much


def tensor_sketch(func: PrimFunc, chip: Chip) -> Sketch | None:
    """Return the sketch of a function that is one product for tensor cores, and what is made of it.
    That is made element by element. None for another function."""
    product = warp_product(func)
    if product is None:
        return None
    batch, rows, columns, depth = product.sizes
    if batch > MAX_GRID_YZ or rows > MAX_GRID_YZ * _TILES[-1]:
        return None
    sch = Schedule(func)
    recorder = Recorder(sch)
    block = sch.get_block(next(b.name for b in blocks_of(func) if b.reduced))
    depths = tuple(b // product.left.bytes for b in _DEPTH_BYTES)
    values = {
        "m": _up_to(_TILES, rows), "n": _up_to(_TILES, columns), "k": _up_to(depths, depth),
        "warps_m": _WARPS, "warps_n": _WARPS, "stages": _STAGES,
    }  # fmt: skip
    for name, choices in values.items():
        sch.annotate(block, WARP_TILE + name, recorder.choose(name, choices).rv)
    judge = WarpJudge(product, chip)
    return Sketch("mma", sch.trace, tuple(recorder.decisions), judge.allowed, judge.draft)


def _up_to(values: tuple[int, ...], size: int) -> tuple[int, ...]:
    """Those of which less than half would be beyond `size`; the least in any case."""
    return tuple(v for v in values if v < 2 * size or v == values[0])


@dataclass(frozen=True, slots=True)
class WarpJudge:
    """Judges tiles of warps."""

    product: WarpProduct
    chip: Chip

    def allowed(self, values: Values) -> bool:
        """Whether a kernel can be made of the tile, its sums fit the registers, and its stages shared memory."""
        tile = _tile(values)
        try:
            tile.check(self.product.sizes[3], self.product.left.bytes)
        except IRError:
            return False
        fits = -(-self.product.sizes[1] // tile.m) <= MAX_GRID_YZ
        return fits and _sums(tile) <= _MOST_SUMS and self._resident(tile) >= 1

    def draft(self, values: Values) -> float:
        """Score a point by a roofline: products, operands to registers, tiles to shared memory.
        Operands come from shared memory, tiles from outside. The part of the tiles that lies within the sizes
        counts, too."""
        tile = _tile(values)
        batch, m, n, k = self.product.sizes
        element = self.product.left.bytes
        rows, columns = tile.warp
        across, along, steps = -(-m // tile.m), -(-n // tile.n), tile.steps(k)
        inside = m * n * k / (across * tile.m * along * tile.n * steps * tile.k)
        resident = self._resident(tile)
        products = tile.m * tile.n * tile.k * element / (2 * _RATE * self.chip.fmas)
        warps = tile.warps[0] * tile.warps[1]
        shared = element * (rows + columns) * tile.k * warps / 128
        shared += self._gathered(tile) * tile.threads * _GATHER_CYCLES
        memory = element * (tile.m + tile.n) * tile.k / (2 * self.chip.memory / self.chip.multiprocessors)
        hidden = min(1.0, tile.stages * resident / 4)
        cycles = roofline((products, shared, memory), 0.8 * hidden) + 20 / max(resident, 1)
        filled = self.chip.filled(batch * across * along, resident)
        return min(1.0, inside * products / cycles * steps / (steps + tile.stages) * filled)

    def _gathered(self, tile: WarpTile) -> int:
        """Elements that a thread gathers in a step."""
        sides = ((self.product.left, tile.m), (self.product.right, tile.n))
        return sum(size * tile.k for operand, size in sides if operand.lanes == 1) // tile.threads

    def _resident(self, tile: WarpTile) -> int:
        rows, columns = tile.warp
        registers = _BASE_REGISTERS + _sums(tile) + rows // 4 + columns // 4 + _GATHER_REGISTERS * self._gathered(tile)
        return self.chip.resident(tile.threads, registers, tile.shared_bytes(self.product.left.bytes))


def _tile(values: Values) -> WarpTile:
    warps = values["warps_m"], values["warps_n"]
    return WarpTile(values["m"], values["n"], values["k"], warps, values["stages"])


def _sums(tile: WarpTile) -> int:
    """The sums of a thread."""
    rows, columns = tile.warp
    return rows * columns // WARP
