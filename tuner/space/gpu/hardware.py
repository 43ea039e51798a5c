"""The facts of an NVIDIA GPU that sketches need, by its architecture.

A target names the architecture and not the card. Numbers that differ among the cards of one architecture (how many
multiprocessors, bandwidth) are those of its large ones. They only order what is tried first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from compiler.codegen.nvptx.ptx import arch_of, capability, max_shared_bytes
from compiler.launches import MAX_GRID
from compiler.target.target import Target

WARP = 32
MAX_GRID_YZ = MAX_GRID[1]
_REGISTERS = 65_536  # of 32 bits, of one multiprocessor; every architecture since 2014
_THREAD_REGISTERS = 255
_RESERVED_SHARED = 1 << 10  # the driver's, of each block


@dataclass(frozen=True, slots=True)
class Chip:
    """One architecture.
    Per multiprocessor: `fmas` of float32 a cycle, `threads` and `blocks` at once, bytes of `shared` memory; `memory`
    bytes come from outside the chip in a cycle, over all `multiprocessors`."""

    arch: str
    multiprocessors: int
    fmas: int
    threads: int
    blocks: int
    shared: int
    memory: int
    block_threads: int

    @staticmethod
    def of(target: Target) -> Chip:
        """Raise CodegenError for an architecture without code here."""
        arch = arch_of(target)
        multiprocessors, fmas, threads, blocks, memory = _KNOWN.get(capability(arch), _KNOWN[80])
        shared = max_shared_bytes(arch) + _RESERVED_SHARED
        return Chip(arch, multiprocessors, fmas, threads, blocks, shared, memory, target.max_num_threads)

    @property
    def block_shared(self) -> int:
        """The most shared memory of one block, in bytes."""
        return self.shared - _RESERVED_SHARED

    def resident(self, threads: int, registers: int, shared: int) -> int:
        """How many such blocks run at once on one multiprocessor.
        A block has so many threads, registers a thread and bytes of shared memory; 0 when not even one fits."""
        if threads > self.block_threads or registers > _THREAD_REGISTERS or shared > self.block_shared:
            return 0
        warps = -(-threads // WARP)
        by_registers = _REGISTERS // (warps * WARP * (-(-registers // 8) * 8))
        return min(
            self.blocks, self.threads // (warps * WARP), by_registers, self.shared // (shared + _RESERVED_SHARED)
        )

    def filled(self, blocks: int, resident: int) -> float:
        """Return the part of the time that multiprocessors have work, when `blocks` come in waves.
        A wave is as many as fit; 0 when none fits."""
        if resident < 1:
            return 0.0
        if blocks < self.multiprocessors:
            return blocks / self.multiprocessors
        at_once = self.multiprocessors * resident
        return blocks / (math.ceil(blocks / at_once) * at_once) if blocks > at_once else 1.0


def roofline(parts: Sequence[float], hidden: float) -> float:
    """The cycles of a step whose parts take so many: the longest, and what it does not hide of the rest."""
    longest = max(parts)
    return longest + (1 - hidden) * (sum(parts) - longest)


# multiprocessors, multiply-adds of float32, threads, blocks, bytes a cycle: the CUDA programming guide's table of
# technical specifications, and the data sheets of A100, A40, L40S, H100/H200, B200, RTX 5090.
_KNOWN = {
    80: (108, 64, 2048, 32, 1400),
    86: (84, 128, 1536, 16, 400),
    87: (16, 128, 1536, 16, 160),
    89: (142, 128, 1536, 24, 350),
    90: (132, 128, 2048, 32, 2200),
    100: (148, 128, 2048, 32, 4200),
    101: (20, 128, 1536, 24, 200),
    103: (148, 128, 2048, 32, 4200),
    120: (170, 128, 1536, 24, 750),
    121: (48, 128, 1536, 24, 120),
}
