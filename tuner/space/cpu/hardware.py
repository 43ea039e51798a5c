"""The facts of a target that sketches and their constraints need."""

from __future__ import annotations

from dataclasses import dataclass, replace

from compiler.dtype import parse_dtype
from compiler.target.target import Target

_MASKED = 64  # bytes of a vector


@dataclass(frozen=True)
class Hardware:
    """A CPU: `lanes` of one dtype in a vector register, the number of `registers`, its near caches.
    A target does not name the caches, so they have the sizes of most cores of this decade, at least. `panel_bytes`
    of packed columns stay in the second level while rows pass: half of it. Servers with vectors of 512 bits have one
    of 2 MiB."""

    lanes: int
    registers: int
    threads: int
    l1_bytes: int = 32 << 10
    l2_bytes: int = 512 << 10
    panel_bytes: int = 256 << 10

    @staticmethod
    def of(target: Target, dtype: str) -> Hardware:
        lanes = max(1, target.vector_bits // parse_dtype(dtype).bits)
        hardware = Hardware(lanes, target.vector_registers, max(1, target.num_cores or 1))
        return replace(hardware, l1_bytes=48 << 10, panel_bytes=1 << 20) if target.vector_bits >= 512 else hardware


def has_masks(hardware: Hardware, dtype: str) -> bool:
    """Whether part of a vector costs no more than a whole one: vectors of 64 bytes have masks."""
    return hardware.lanes * parse_dtype(dtype).bytes >= _MASKED
