"""The cost model's facts of a machine, from its target."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.dtype import parse_dtype
from compiler.target.target import Target
from tuner.space.backend import tuning_backend_of

LINE_BYTES = 64
_L2_KIB = {
    "skylake-avx512": 1024, "cascadelake": 1024, "cooperlake": 1024, "icelake-server": 1280, "icelake-client": 512,
    "tigerlake": 1280, "rocketlake": 512, "znver4": 1024, "znver5": 1024,
}  # fmt: skip
"""Of processors with vectors of 512 bits whose second level is not of 2 MiB."""


@dataclass(frozen=True)
class MachineModel:
    """`lanes` of a vector of the dtype at hand; cache sizes in bytes, of one core, but `l3_bytes` of all.
    `wide`: a vector is a line of the caches. `l2_bytes` is what models were trained with, `l2_held` what a processor
    of this name has."""

    lanes: int
    registers: int
    threads: int
    l1_bytes: int
    l2_bytes: int
    l3_bytes: int
    l2_held: int
    wide: bool = False

    @staticmethod
    def of(target: Target, dtype: str) -> MachineModel:
        """Cache sizes are typical ones: machines with 512-bit vectors have a larger second level."""
        wide = target.vector_bits >= 512
        return MachineModel(
            lanes=max(1, target.vector_bits // parse_dtype(dtype).bits), registers=target.vector_registers,
            threads=max(1, target.num_cores or 1), l1_bytes=48 << 10 if wide else 32 << 10,
            l2_bytes=2 << 20 if wide else 512 << 10, l3_bytes=32 << 20,
            l2_held=(_L2_KIB.get(target.mcpu, 2048) << 10) if wide else 512 << 10, wide=wide,
        )  # fmt: skip


def target_family(target: Target) -> str:
    """Name the targets that share a model with this one.
    The name has its kind, its architecture, and how wide its vectors are."""
    return tuning_backend_of(target).model_family(target)
