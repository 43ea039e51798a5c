"""Small things that scripts written for TVM's meta_schedule import."""

import os
from typing import TypeVar

import numpy as np

from compiler.ir.function import BaseFunc
from compiler.ir.module import IRModule
from compiler.ir.structural import structural_hash

C = TypeVar("C", bound=type)


def derived_object(cls: C) -> C:
    """The class as it is: a subclass of a rule or a callback needs no wrapper here."""
    return cls


def cpu_count(logical: bool = True) -> int:
    """How many cores this process may use; threads of a core count as cores of their own."""
    return len(os.sched_getaffinity(0))


def shash2hex(mod: IRModule | BaseFunc) -> str:
    """The structural hash of a module as 16 hexadecimal digits."""
    return f"{structural_hash(mod) & (1 << 64) - 1:016x}"


def is_meta_schedule_enabled() -> bool:
    """Whether builds of graphs take schedules from a database. They always do while one is current."""
    return True


def fork_seed(seed: int | None, n: int) -> list[int]:
    """Seeds of `n` generators that draw nothing in common; of None, others each time."""
    return [int(value) for value in np.random.default_rng(seed).integers(1, 1 << 30, size=n)]


__all__ = ["cpu_count", "derived_object", "fork_seed", "is_meta_schedule_enabled", "shash2hex"]
