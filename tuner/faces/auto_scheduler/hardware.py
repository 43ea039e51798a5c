"""The hardware's parameters for the search."""

from __future__ import annotations

import os
from typing import Any

from compiler.target.target import Target
from tuner.faces.auto_scheduler.errors import SchedulerError

_FIELDS = (
    "num_cores",
    "vector_unit_bytes",
    "cache_line_bytes",
    "max_shared_memory_per_block",
    "max_local_memory_per_block",
    "max_threads_per_block",
    "max_vthread_extent",
    "warp_size",
)


class HardwareParams:
    """The hardware; None takes `target`'s, by default this machine.
    Of these the search uses `num_cores`; the vectors' width and registers it takes from the target. The numbers for
    GPUs are kept in records."""

    def __init__(
        self, num_cores: int | None = None, vector_unit_bytes: int | None = None, cache_line_bytes: int | None = None,
        max_shared_memory_per_block: int | None = None, max_local_memory_per_block: int | None = None,
        max_threads_per_block: int | None = None, max_vthread_extent: int | None = None, warp_size: int | None = None,
        target: Any = None, target_host: Any = None,
    ) -> None:  # fmt: skip
        chosen = Target("llvm" if target is None else target)
        cpu = chosen if chosen.is_cpu else Target(target_host or "llvm")
        self.num_cores = num_cores or cpu.num_cores or len(os.sched_getaffinity(0))
        self.vector_unit_bytes = vector_unit_bytes or cpu.resolved().vector_bits // 8
        self.cache_line_bytes = cache_line_bytes or 64
        self.max_shared_memory_per_block = max_shared_memory_per_block or 0
        self.max_local_memory_per_block = max_local_memory_per_block or 0
        self.max_threads_per_block = max_threads_per_block or 0
        self.max_vthread_extent = max_vthread_extent or 0
        self.warp_size = warp_size or 0
        for name in _FIELDS:
            value = getattr(self, name)
            if not isinstance(value, int) or value < 0:
                raise SchedulerError(f"{name} is a number of at least 0, got {value!r}")

    def to_json(self) -> list[int]:
        """The numbers in a record, in the order of the parameters."""
        return [getattr(self, name) for name in _FIELDS]

    @staticmethod
    def from_json(values: list[int]) -> HardwareParams:
        return HardwareParams(**dict(zip(_FIELDS, values)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HardwareParams) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(tuple(self.to_json()))

    def __str__(self) -> str:
        return "\n".join(f"{name}: {getattr(self, name)}" for name in _FIELDS)
