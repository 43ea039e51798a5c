"""Hooks for tuning kernels: passes ask here, and the tuner answers.

The tuner's answers are in `tuner/faces/kernel_tuner.py`. Without a tuner there are none, and the passes say so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NoReturn

from compiler import hooks
from compiler.errors import TunefarmError
from compiler.ir.base import GlobalVar
from compiler.ir.module import IRModule
from compiler.target.target import Target
from compiler.tir import nodes as n

SCHEDULED = "tir.is_scheduled"
"""The attribute of kernels that says that a schedule was chosen."""


def _nobody(*args: object) -> NoReturn:
    raise TunefarmError("no tuner is registered", hint="import tunefarm.relax, or set one with use_kernel_tuner")


@dataclass(frozen=True, slots=True)
class KernelTuner:
    """`find(func, target, work_dir)` looks a schedule up, in a folder or the database that is entered.

    `tune(kernels, target, work_dir, max_trials, max_trials_per_task)` tunes kernels, given by name, and records what it
    finds in the folder. `choose(func, target, valid_count, benchmark)` picks one of `valid_count` schedules: the first
    valid one, or with `benchmark` the fastest. Both return None without a result.
    """

    find: Callable[[n.PrimFunc, Target, str | None], n.PrimFunc | None] = _nobody
    tune: Callable[[Mapping[str, n.PrimFunc], Target, str, int, int | None], None] = _nobody
    choose: Callable[[n.PrimFunc, Target, int, bool], n.PrimFunc | None] = _nobody


_NOTHING = KernelTuner()
_in_use: list[KernelTuner | None] = [None]  # None: whom `hooks` names


def use_kernel_tuner(tuner: KernelTuner) -> None:
    """Ask `tuner` from now on."""
    _in_use[0] = tuner


@contextmanager
def kernel_tuner(tuner: KernelTuner) -> Iterator[None]:
    """Ask `tuner` inside of a `with` block."""
    _in_use.append(tuner)
    try:
        yield
    finally:
        _in_use.remove(tuner)


def asked() -> KernelTuner:
    """Return the tuner that passes use now."""
    found = _in_use[-1]
    if found is None:
        found = hooks.answer(hooks.TUNER) or _NOTHING
        assert isinstance(found, KernelTuner)
    return found


def unscheduled(mod: IRModule) -> dict[GlobalVar, n.PrimFunc]:
    """Return the kernels of a module that have no schedule."""
    kernels = {name: func for name, func in mod.items() if isinstance(func, n.PrimFunc)}
    return {name: func for name, func in kernels.items() if not func.attrs.get(SCHEDULED)}


def with_schedules(mod: IRModule, found: Mapping[GlobalVar, n.PrimFunc]) -> IRModule:
    """Return `mod` with scheduled kernels in place of its own. Each keeps its kernel's attributes."""
    functions = dict(mod.functions)
    for name, func in found.items():
        old = mod[name]
        assert isinstance(old, n.PrimFunc)
        made = func.with_attrs({key: value for key, value in old.attrs.items() if key not in func.attrs})
        kept = made if "global_symbol" in old.attrs else made.without_attr("global_symbol")
        functions[name] = kept.with_attr(SCHEDULED, True)
    return mod.with_functions(functions)
