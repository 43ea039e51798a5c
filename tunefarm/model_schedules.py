"""The schedules of a model's build, if its kernels' configs are known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from compiler.driver.backend import backend_of
from compiler.driver.kernel_schedules import KernelSchedules, asked
from compiler.driver.sized_kernels import SizedKernels
from compiler.schedule.core.schedule import apply_trace
from compiler.schedule.core.trace import Trace
from compiler.target.target import Target
from compiler.tir.nodes import PrimFunc
from compiler.tir.text.print_func import workload_key
from tuner.families.build import sized_kernels
from tuner.families.family import family_key
from tuner.families.function import general_form, general_key
from tuner.families.record import FamilyRecord


class KnownConfig(Protocol):
    """The known best config of a kernel: its `trace`, or that none is faster than the function as written."""

    @property
    def trace(self) -> str | None: ...

    @property
    def as_written(self) -> bool: ...


def schedules_of(known: Mapping[str, KnownConfig], families: Iterable[FamilyRecord] = ()) -> KernelSchedules:
    """The configs, by workload key, for what a build asks; drafts for the rest.

    `families` are records for kernels whose sizes only a call tells.
    """
    records = {family_key(record.what): record for record in families}

    def find(func: PrimFunc, target: Target) -> PrimFunc | None:
        reply = known.get(workload_key(func))
        if reply is None or (reply.trace is None and not reply.as_written):
            return None
        if reply.as_written or reply.trace is None:
            return backend_of(target).default_schedule(func)
        return apply_trace(func, Trace.from_json(reply.trace)).func

    def sized(func: PrimFunc, target: Target) -> SizedKernels | None:
        form = general_form(func) if records else None
        record = None if form is None else records.get(general_key(form))
        return None if record is None else sized_kernels(record)

    return KernelSchedules(find, asked().pick, asked().prepare, sized)
