"""From a function to its search space on an NVIDIA GPU."""

from __future__ import annotations

from compiler.schedule.core.schedule import Schedule
from compiler.target.target import Target
from compiler.tir.nodes import PrimFunc
from tuner.space.analysis import blocks_of, epilogue_of
from tuner.space.backend import TuningBackend
from tuner.space.cpu.elementwise import inline_chains
from tuner.space.gpu.contraction import tile_sketches
from tuner.space.gpu.elementwise import bind_results, elementwise_sketch, inline_padding
from tuner.space.gpu.hardware import Chip
from tuner.space.gpu.rows import gpu_row_sketches
from tuner.space.gpu.tensor import tensor_sketch
from tuner.space.gpu.warpgroup import warpgroup_sketch
from tuner.space.sketch import Sketch, anything, level


class GPUTuningBackend(TuningBackend):
    """NVIDIA GPUs: tensor cores where a product can use them, else tiles of threads."""

    def sketches(self, func: PrimFunc, target: Target) -> tuple[Sketch, ...]:
        """Return the sketches. There is always one: without decisions where nothing better is known."""
        chip = Chip.of(target)
        found = elementwise_sketch(func, chip)
        if found is not None:
            return (found,)
        blocks = blocks_of(func)
        main = max((b for b in blocks if b.contraction), key=lambda b: b.points, default=None)
        if main is not None:
            warps = tensor_sketch(func, chip)
            if warps is not None:  # nothing else comes near
                groups = warpgroup_sketch(func, chip)
                return (warps,) if groups is None else (groups, warps)
            tiles = tile_sketches(func, main, epilogue_of(func, main, blocks), chip)
            if tiles:
                return tuple(tiles)
        return gpu_row_sketches(func, chip) or (_plain(func),)


GPU = GPUTuningBackend()


def _plain(func: PrimFunc) -> Sketch:
    """A kernel for each block, a thread for each result."""
    sch = Schedule(func)
    inline_chains(sch)
    inline_padding(sch)
    for info in blocks_of(sch.func):
        bind_results(sch, sch.get_block(info.name), info)
    return Sketch("plain", sch.trace, (), anything, level)
