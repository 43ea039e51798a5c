"""Schedules of a graph's kernels: what a build asks, and who answers.

A build asks two questions of each kernel, in order: is there a record of a schedule for it, and if not, which one
looks best without trying any. The tuner answers both (`tuner/faces/kernel_schedules.py`). Without it kernels stay as
they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

from compiler import hooks
from compiler.driver.backend import backend_of
from compiler.driver.sized_kernels import SizedKernels
from compiler.ir.base import GlobalVar
from compiler.relax.analysis.joined_parts import JOINED_PARTS
from compiler.relax.fusion.kernel_pattern import is_unscheduled, nest_work, nests_of
from compiler.relax.fusion.parts import parts_of, put_together
from compiler.target.target import Target
from compiler.tir import nodes as n

Question: TypeAlias = Callable[[n.PrimFunc, Target], n.PrimFunc | None]
"""The kernel scheduled for a target; None where nothing is known."""

LEAST_WORK = 1 << 13
"""Operations of a kernel from which on a schedule is picked: a plain loop takes some microseconds for them."""


def _nothing(func: n.PrimFunc, target: Target) -> n.PrimFunc | None:
    return None


def _no_sizes(func: n.PrimFunc, target: Target) -> SizedKernels | None:
    return None


def _not_prepared(funcs: Sequence[n.PrimFunc], target: Target) -> None:
    pass


@dataclass(frozen=True, slots=True)
class KernelSchedules:
    """Answer a build's questions about schedules.

    `find` looks a schedule up, `pick` chooses one that nobody has tried. `prepare` gets all kernels before `pick` is
    asked, and may work on several at a time. `sized` has kernels for a function whose sizes only a call tells.
    """

    find: Question = _nothing
    pick: Question = _nothing
    prepare: Callable[[Sequence[n.PrimFunc], Target], None] = _not_prepared
    sized: Callable[[n.PrimFunc, Target], SizedKernels | None] = _no_sizes


_NOTHING = KernelSchedules()
_in_use: list[KernelSchedules | None] = [None]  # None: whom `hooks` names


def use_kernel_schedules(schedules: KernelSchedules) -> None:
    """Use `schedules` from now on."""
    _in_use[0] = schedules


@contextmanager
def kernel_schedules(schedules: KernelSchedules) -> Iterator[None]:
    """Use `schedules` inside of a `with` block."""
    _in_use.append(schedules)
    try:
        yield
    finally:
        _in_use.remove(schedules)


def asked() -> KernelSchedules:
    """Return the schedules that builds use now."""
    found = _in_use[-1]
    if found is None:
        found = hooks.answer(hooks.SCHEDULES) or _NOTHING
        assert isinstance(found, KernelSchedules)
    return found


def scheduled(kernels: Mapping[GlobalVar, n.PrimFunc], target: Target) -> dict[GlobalVar, n.PrimFunc]:
    """The kernels with schedules for `target`. A kernel that is scheduled already stays as it is."""
    chosen = backend_of(target).complete(target)
    found = {name: _found(func, chosen) for name, func in kernels.items()}
    unknown = [func for name, func in kernels.items() if found[name] is None]
    asked().prepare([part for func in unknown for part in _to_pick_for(func, chosen)], chosen)
    return {name: found[name] or _picked(func, chosen) for name, func in kernels.items()}


def sized_kernels(kernels: Mapping[GlobalVar, n.PrimFunc], target: Target) -> dict[GlobalVar, SizedKernels]:
    """The kernels that are known for functions whose sizes only a call tells. `kernels` have no schedules."""
    if not target.is_cpu:
        return {}
    asks = {name: func for name, func in kernels.items() if _takes_sizes(func)}
    found = {name: asked().sized(func, target) for name, func in asks.items()}
    return {name: known for name, known in found.items() if known is not None}


def _takes_sizes(func: n.PrimFunc) -> bool:
    shapes = [buffer.shape for buffer in func.buffer_map.values()]
    whole = len(func.params) == len(shapes) and schedulable_work(func) is not None
    return whole and any(not isinstance(extent, n.IntImm) for shape in shapes for extent in shape)


def _found(func: n.PrimFunc, target: Target) -> n.PrimFunc | None:
    return None if schedulable_work(func) is None else asked().find(func, target)


def _picked(func: n.PrimFunc, target: Target) -> n.PrimFunc:
    """A kernel that no schedule is known for."""
    made = _by_parts(func, target) or asked().pick(func, target) if _is_picked_for(func) else None
    return backend_of(target).default_schedule(func) if made is None else made


def separate_kernels(func: n.PrimFunc) -> list[n.PrimFunc]:
    """Return the kernels that `func` is scheduled as on a CPU: itself, or a part for each product or sum."""
    return (parts_of(func) if _is_picked_for(func) else []) or [func]


def _by_parts(func: n.PrimFunc, target: Target) -> n.PrimFunc | None:
    """A kernel of several products or sums with each part scheduled as a kernel.
    None for one that has no parts."""
    parts = _parts(func, target)
    made = [_found(part, target) or _picked(part, target) for part in parts]
    return put_together(func, made) if parts else None


def _to_pick_for(func: n.PrimFunc, target: Target) -> list[n.PrimFunc]:
    """The kernels for which `pick` will be asked: `func`, or its parts."""
    unknown = [part for part in _parts(func, target) if _found(part, target) is None] or [func]
    return list(filter(_is_picked_for, unknown))


def _parts(func: n.PrimFunc, target: Target) -> list[n.PrimFunc]:
    found = separate_kernels(func) if target.is_cpu else []
    return found if len(found) > 1 else []


def _is_picked_for(func: n.PrimFunc) -> bool:
    work = schedulable_work(func)
    return work is not None and work >= LEAST_WORK


def schedulable_work(func: n.PrimFunc) -> float | None:
    """Count the operations of a call.
    None for a kernel that is scheduled already or not made of plain blocks.

    None also for a kernel that a build does not call, because its parts are computed in place.
    """
    if JOINED_PARTS in func.attrs:
        return None
    nests = nests_of(func)
    if nests is None or not all(map(is_unscheduled, nests)) or func.attrs.get("tir.is_scheduled"):
        return None
    return sum(nest_work(nest) for nest in nests)
