"""Default schedules by rules, as Apache TVM's dlight has them: each rule knows one kind of kernel.

A rule says which kernels it takes. The schedule is the tuner's choice: the point of the search space that its draft,
and the shipped model for CPUs, rank first (`tuner/search/drafted.py`). Nothing is measured.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

from compiler.driver.backend import backend_of
from compiler.errors import ArgumentError
from compiler.ir.base import GlobalVar
from compiler.ir.function import BaseFunc
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.ir.transform.passes import ModulePass, PassInfo
from compiler.schedule.core.schedule import Schedule
from compiler.target.target import Target
from compiler.tir import nodes as n
from tuner.faces.dlight.kinds import KernelKind, kind_of
from tuner.search.drafted import drafted

SCHEDULED = "tir.is_scheduled"
"""The attribute of kernels that have a schedule: no rule is asked for them."""


class ScheduleRule(ABC):
    """The contract: a schedule for a kernel that the rule knows."""

    @abstractmethod
    def apply(self, func: n.PrimFunc, target: Target, tunable: bool) -> Schedule | list[Schedule] | None:
        """Schedule `func`; None for a kernel that the rule does not take.
        With `tunable`, decisions may be left open."""

    @staticmethod
    def from_callable(
        name: str,
    ) -> Callable[[Callable[[n.PrimFunc, Target, bool], Schedule | list[Schedule] | None]], type[ScheduleRule]]:
        """Make a rule called `name` of a function."""

        def made(
            function: Callable[[n.PrimFunc, Target, bool], Schedule | list[Schedule] | None],
        ) -> type[ScheduleRule]:
            return type(name, (ScheduleRule,), {"apply": lambda self, *given: function(*given)})

        return made


class KindRule(ScheduleRule):
    """A rule for one kind of kernel on one kind of device."""

    KIND: ClassVar[KernelKind]
    CPU: ClassVar[bool]

    def apply(self, func: n.PrimFunc, target: Target, tunable: bool) -> Schedule | list[Schedule] | None:
        """Draft a schedule; None for another kind of kernel, or of device.
        `tunable` is ignored, because spaces are the tuner's."""
        del tunable
        if target.is_cpu is not self.CPU or kind_of(func) is not self.KIND:
            return None
        return drafted(func, _with_cores(target))


class FallbackRule(ScheduleRule):
    """A rule for every kernel: drafted if possible, else each block by itself."""

    CPU: ClassVar[bool]

    def apply(self, func: n.PrimFunc, target: Target, tunable: bool) -> Schedule | list[Schedule] | None:
        """Schedule any kernel that nobody scheduled. `tunable` is accepted and not heeded."""
        del tunable
        if target.is_cpu is not self.CPU or kind_of(func) is None:
            return None
        return drafted(func, _with_cores(target)) or _simple(func, target)


def _with_cores(target: Target) -> Target:
    chosen = backend_of(target).complete(target)
    if not chosen.is_cpu or chosen.num_cores:
        return chosen
    return Target({**chosen.export(), "num-cores": len(os.sched_getaffinity(0))})


def _simple(func: n.PrimFunc, target: Target) -> Schedule:
    """The outermost loop of each block in parallel; threads for each result on a GPU."""
    if not target.is_cpu:
        return Schedule(backend_of(target).default_schedule(func))
    sch = Schedule(func)
    for block in sch.get_child_blocks(sch.get_block("root")):
        loops = sch.get_loops(block)
        if loops and sch.get(block).iter_vars[0].iter_type is n.IterType.DATA_PAR:
            sch.parallel(loops[0])
    return sch


class ApplyDefaultSchedule(ModulePass):
    """A pass that schedules each kernel by the first of `rules` that takes it, for the current target.

    Kernels with the attribute `tir.is_scheduled` are left alone; those that are scheduled get it.
    """

    def __init__(self, *rules: ScheduleRule) -> None:
        wrong = [rule for rule in rules if not isinstance(rule, ScheduleRule)]
        if wrong:
            raise ArgumentError(f"{wrong[0]!r} is no ScheduleRule", hint="give objects: dl.cpu.Matmul()")
        self.rules = rules
        super().__init__(self._scheduled, PassInfo(0, "ApplyDefaultSchedule"))

    def _scheduled(self, mod: IRModule, context: PassContext) -> IRModule:
        target = Target.current_or_default()
        functions: dict[GlobalVar, BaseFunc] = dict(mod.functions)
        for name, func in mod.items():
            if isinstance(func, n.PrimFunc) and not func.attrs.get(SCHEDULED):
                made = self._applied(func, target)
                functions[name] = func if made is None else made.with_attr(SCHEDULED, 1)
        return mod.with_functions(functions)

    def _applied(self, func: n.PrimFunc, target: Target) -> n.PrimFunc | None:
        for rule in self.rules:
            found = rule.apply(func, target, False)
            if isinstance(found, list):
                found = found[0] if found else None
            if found is not None:
                return found.func
        return None
