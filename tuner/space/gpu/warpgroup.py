"""Sketches of products on Hopper's tensor cores.

A sketch decides what a block of warpgroups computes, how many stages are copied ahead, and the order in which blocks
take the tiles. The kernel is that of `compiler.tensorcore.warpgroup`; a trace gives its tile by annotations.
"""

from __future__ import annotations

from dataclasses import dataclass

from compiler.errors import IRError
from compiler.schedule.core.schedule import Schedule
from compiler.tensorcore.warp_form import WarpProduct
from compiler.tensorcore.warp_match import warp_product
from compiler.tensorcore.warp_products import WARPGROUP_TILE
from compiler.tensorcore.warpgroup import WarpgroupTile, matrices
from compiler.tir.intrin.ptx_warpgroup import ARCH
from compiler.tir.nodes import PrimFunc
from tuner.space.analysis import blocks_of
from tuner.space.gpu.hardware import Chip, roofline
from tuner.space.recorder import Recorder
from tuner.space.sketch import Sketch, Values

_ROWS = (64, 128, 256)
_COLUMNS = (16, 32, 64, 96, 128, 192, 256)
_GROUPS = (1, 2)
_STAGES = (2, 3, 4, 5, 6, 8)
_RASTER = (1, 4, 8, 16, 32)
_ALL = 1 << 30  # a block for each tile
_RATE = 16  # how many times faster than float32 the products are
_SHARED_BYTES = 128  # of shared memory that products read in a cycle
_BASE_REGISTERS = 56
_EPILOGUE = 1.5  # cycles for each of a thread's sums, while its block multiplies nothing


def warpgroup_sketch(func: PrimFunc, chip: Chip) -> Sketch | None:
    """Return the sketch of a function that is a product of matrices for warpgroups.
    With it comes what is made of the product element by element. None for another, and for GPUs without them."""
    product = warp_product(func) if chip.arch == ARCH else None
    operands = None if product is None else matrices(product)
    if product is None or operands is None:
        return None
    sch = Schedule(func)
    recorder = Recorder(sch)
    block = sch.get_block(next(b.name for b in blocks_of(func) if b.reduced))
    _, rows, columns, _ = product.sizes
    values = {
        "m": tuple(v for v in _ROWS if v < 2 * rows or v == _ROWS[0]),
        "n": tuple(v for v in _COLUMNS if v < 2 * columns or v == 64),
        "groups": _GROUPS, "stages": _STAGES, "raster": _RASTER,
        "blocks": (chip.multiprocessors, 2 * chip.multiprocessors, _ALL),
    }  # fmt: skip
    for name, choices in values.items():
        sch.annotate(block, WARPGROUP_TILE + name, recorder.choose(name, choices).rv)
    judge = WarpgroupJudge(product, operands[1].transposed, chip)
    return Sketch("wgmma", sch.trace, tuple(recorder.decisions), judge.allowed, judge.draft)


@dataclass(frozen=True, slots=True)
class WarpgroupJudge:
    """Judges tiles of warpgroups."""

    product: WarpProduct
    transposed: bool
    chip: Chip

    def allowed(self, values: Values) -> bool:
        """Whether a kernel can be made of the tile, and a block of it runs."""
        tile = _tile(values)
        try:
            tile.check(transposed=self.transposed)
        except IRError:
            return False
        return self._resident(tile) >= 1

    def draft(self, values: Values) -> float:
        """Score a point by a roofline of a step: products, operands from shared memory, tiles from outside.
        Then comes how well tiles fill the GPU, and what part of them is within the sizes."""
        tile = _tile(values)
        _, m, n, k = self.product.sizes
        across, along, steps = -(-m // tile.m), -(-n // tile.n), -(-k // tile.k)
        tiles = across * along
        inside = m * n * k / (across * tile.m * along * tile.n * steps * tile.k)
        resident = max(1, self._resident(tile))
        products = tile.m * tile.n * tile.k / (_RATE * self.chip.fmas)
        parts = tile.m // 64  # each reads its rows and all columns
        shared = 2 * (tile.m + parts * tile.n) * tile.k / _SHARED_BYTES
        height = min(tile.raster, across)  # tiles made at once share what the second-level cache holds
        again = 1.0 if height > 1 else 1.5
        memory = again * 2 * (tile.m + tile.n) * tile.k * self.chip.multiprocessors / (4 * self.chip.memory)
        hidden = min(1.0, (tile.stages - 1) * resident / 3)
        step = roofline((products, shared, memory), 0.9 * hidden)
        overlapped = resident > 1 or tile.blocks < tiles  # the next tile's stages fill while results are stored
        around = _EPILOGUE * tile.sums * (1 if overlapped else 2) / resident
        return min(1.0, inside * products * steps / (step * steps + around) * self.chip.filled(tiles, resident))

    def _resident(self, tile: WarpgroupTile) -> int:
        limited = tile.groups > 1  # registers are given to warpgroups as they need them: as many for all at the start
        registers = 168 if limited else min(_BASE_REGISTERS + tile.sums, 255)
        return self.chip.resident(tile.threads, registers, tile.shared_bytes)


def _tile(values: Values) -> WarpgroupTile:
    return WarpgroupTile(
        values["m"], values["n"], groups=values["groups"], stages=values["stages"], blocks=values["blocks"],
        raster=values["raster"],
    )  # fmt: skip
