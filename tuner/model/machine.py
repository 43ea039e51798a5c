"""What the cost model knows of a machine, from its target."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.dtype import parse_dtype
from compiler.target.target import Target

LINE_BYTES = 64


@dataclass(frozen=True)
class Machine:
    """`lanes` of a vector of the dtype at hand; cache sizes in bytes, of one core, but `l3_bytes` of all;
    `wide`: a vector is a line of the caches."""

    lanes: int
    registers: int
    threads: int
    l1_bytes: int
    l2_bytes: int
    l3_bytes: int
    wide: bool = False

    @staticmethod
    def of(target: Target, dtype: str) -> Machine:
        """Cache sizes are typical ones: machines with 512-bit vectors have a larger second level."""
        wide = target.vector_bits >= 512
        return Machine(
            lanes=max(1, target.vector_bits // parse_dtype(dtype).bits),
            registers=target.vector_registers,
            threads=max(1, target.num_cores or 1),
            l1_bytes=48 << 10 if wide else 32 << 10,
            l2_bytes=2 << 20 if wide else 512 << 10,
            l3_bytes=32 << 20,
            wide=wide,
        )


def target_family(target: Target) -> str:
    """Targets that share a model: the kind of target, its architecture, and how wide its vectors are.

    "llvm-x86_64-256" is x86 with AVX2, "llvm-x86_64-512" with AVX-512.
    """
    if target.kind.name != "llvm":
        return f"{target.kind.name}-{target.arch or target.mcpu or 'any'}"
    architecture = (target.mtriple or "any").split("-")[0]
    return f"llvm-{architecture}-{target.vector_bits}"
