"""What sketches and their constraints need to know of a target."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.dtype import parse_dtype
from compiler.target import Target


@dataclass(frozen=True)
class Hardware:
    """`lanes` of one dtype in a vector register, how many `registers` there are, and how large the caches near a
    core are. A target does not say the last, so they are those most cores of this decade have at least."""

    lanes: int
    registers: int
    threads: int
    l1_bytes: int = 32 << 10
    l2_bytes: int = 512 << 10

    @staticmethod
    def of(target: Target, dtype: str) -> Hardware:
        lanes = max(1, target.vector_bits // parse_dtype(dtype).bits)
        return Hardware(lanes, target.vector_registers, max(1, target.num_cores or 1))
