"""Schedules of the kernels of a graph: what a build asks for, and whoever knows about schedules fills in.

A build asks two questions of each kernel, in order: is there a record of a schedule for it, and if not, which one
looks best without trying any. The tuner answers both (`tuner/faces/kernel_schedules.py`). Without it kernels stay as
they are.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

from compiler.driver.backend import backend_of
from compiler.ir.base import GlobalVar
from compiler.relax.fusion.kernel_pattern import is_unscheduled, nest_work, nests_of
from compiler.relax.fusion.parts import parts_of, put_together
from compiler.target.target import Target
from compiler.tir import nodes as n

Question: TypeAlias = Callable[[n.PrimFunc, Target], n.PrimFunc | None]
"""The kernel scheduled for a target; None where nothing is known."""

LEAST_WORK = 1 << 17
"""Operations of a kernel from which on a schedule is picked: those of some tens of microseconds."""


def _nothing(func: n.PrimFunc, target: Target) -> n.PrimFunc | None:
    return None


@dataclass(frozen=True, slots=True)
class KernelSchedules:
    """`find` looks a schedule up, `pick` chooses one that nobody has tried."""

    find: Question = _nothing
    pick: Question = _nothing


_in_use: list[KernelSchedules | str] = [KernelSchedules()]


def use_kernel_schedules(schedules: KernelSchedules | str) -> None:
    """Ask `schedules` from now on: an object, or "package.module:NAME" for one that is imported when first asked."""
    _in_use[0] = schedules


@contextmanager
def kernel_schedules(schedules: KernelSchedules) -> Iterator[None]:
    """Ask `schedules` inside of a `with` block."""
    _in_use.append(schedules)
    try:
        yield
    finally:
        _in_use.remove(schedules)


def asked() -> KernelSchedules:
    """Whom builds ask now."""
    found = _in_use[-1]
    if isinstance(found, str):
        module, _, name = found.partition(":")
        found = getattr(importlib.import_module(module), name)
        assert isinstance(found, KernelSchedules)
        _in_use[-1] = found
    return found


def scheduled(kernels: Mapping[GlobalVar, n.PrimFunc], target: Target) -> dict[GlobalVar, n.PrimFunc]:
    """The kernels with schedules for `target`. A kernel that somebody scheduled keeps its own."""
    chosen = backend_of(target).complete(target)
    return {name: _scheduled(func, chosen) for name, func in kernels.items()}


def _scheduled(func: n.PrimFunc, target: Target) -> n.PrimFunc:
    default = backend_of(target).default_schedule
    work = schedulable_work(func)
    if work is None:
        return default(func)
    schedules = asked()
    found = schedules.find(func, target)
    if found is None and work >= LEAST_WORK:
        found = _by_parts(func, target) or schedules.pick(func, target)
    return default(func) if found is None else found


def _by_parts(func: n.PrimFunc, target: Target) -> n.PrimFunc | None:
    """A kernel of several products or sums with each part scheduled as a kernel; None for one that has no parts."""
    parts = parts_of(func) if target.is_cpu else []
    return put_together(func, [_scheduled(part, target) for part in parts]) if parts else None


def schedulable_work(func: n.PrimFunc) -> float | None:
    """The operations of a call; None for a kernel that somebody scheduled, or that is not made of plain blocks."""
    nests = nests_of(func)
    if nests is None or not all(map(is_unscheduled, nests)) or func.attrs.get("tir.is_scheduled"):
        return None
    return sum(nest_work(nest) for nest in nests)
