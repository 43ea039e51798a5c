"""Workloads and tuning records: what a database of meta_schedule holds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from compiler.faces.tir_schedule.schedule import Schedule
from compiler.faces.tir_schedule.trace import Trace as FaceTrace
from compiler.ir.module import IRModule
from compiler.schedule.core.trace import Trace
from compiler.script.entry import from_source
from compiler.target.target import Target
from compiler.tir import nodes as n
from compiler.tir.ops import as_int
from compiler.tir.text.print_func import workload_key
from tuner.errors import TuningError

FAILED_S = 1e10
"""The seconds a call of a candidate that failed, as TVM writes them."""


class ArgInfo:
    """An argument of a function; the names of TVM's constructors."""

    def as_json(self) -> list[Any]:
        """Return it as a record has it."""
        raise NotImplementedError(f"{type(self).__name__} says how it is written")

    @staticmethod
    def from_json(json_obj: Sequence[Any]) -> TensorInfo:
        """The inverse of `TensorInfo.as_json`. Raises TuningError."""
        match json_obj:
            case ["TENSOR", str(dtype), [*shape]] if all(isinstance(extent, int) for extent in shape):
                return TensorInfo(dtype, tuple(shape))
        raise TuningError(f"{json_obj!r} is no argument of a record", hint='expected ["TENSOR", dtype, shape]')

    @staticmethod
    def from_prim_func(func: n.PrimFunc) -> list[TensorInfo]:
        """The arguments of `func`. Raises TuningError for one that is no buffer of constant shape."""
        found = []
        for param in func.params:
            buffer = func.buffer_map.get(param)
            shape = None if buffer is None else [as_int(extent) for extent in buffer.shape]
            if buffer is None or shape is None or None in shape:
                raise TuningError(f"argument {param.name!r} is no buffer of constant shape")
            found.append(TensorInfo(buffer.dtype, tuple(extent for extent in shape if extent is not None)))
        return found

    @staticmethod
    def from_entry_func(mod: IRModule, remove_preproc: bool = True) -> list[TensorInfo]:
        """The arguments of the module's "main" or only function. Raises TuningError."""
        del remove_preproc  # there is no preprocessing function to take off here
        return ArgInfo.from_prim_func(entry(mod))


@dataclass(frozen=True)
class TensorInfo(ArgInfo):
    """An argument's dtype and shape."""

    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f'TensorInfo("{self.dtype}", {list(self.shape)})'

    def as_json(self) -> list[Any]:
        """Return it as a record has it: ["TENSOR", dtype, shape]."""
        return ["TENSOR", self.dtype, list(self.shape)]


def entry(mod: IRModule | n.PrimFunc) -> n.PrimFunc:
    """The function that is tuned: "main", or the only one. Raises TuningError."""
    if isinstance(mod, n.PrimFunc):
        return mod
    functions = {var.name_hint: func for var, func in mod.functions.items() if isinstance(func, n.PrimFunc)}
    if "main" in functions:
        return functions["main"]
    if len(functions) != 1:
        raise TuningError(
            f"the module has {len(functions)} functions and none is called main: {', '.join(functions) or 'none'}",
            hint="tune one function at a time, or call it main",
        )
    return next(iter(functions.values()))


@dataclass(frozen=True)
class Workload:
    """An unscheduled module. Equal for modules equal up to names."""

    mod: IRModule = field(compare=False)

    @cached_property
    def key(self) -> str:
        """The workload key of its function: what records are kept under, in every kind of database."""
        return workload_key(entry(self.mod))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Workload) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def as_json(self) -> list[str]:
        """Its key and its text as TVMScript."""
        return [self.key, self.mod.script()]

    @staticmethod
    def from_json(data: Sequence[Any]) -> Workload:
        """The inverse of `as_json`. Raises TuningError when the text does not give that key."""
        match data:
            case [str(key), str(text)]:
                mod = from_source(text)
                found = Workload(mod if isinstance(mod, IRModule) else IRModule({"main": mod}))
                if found.key != key:
                    raise TuningError(f"the workload's text has the key {found.key[:16]}…, not {key[:16]}…")
                return found
        raise TuningError("a workload is a list of its key and its text")


@dataclass(frozen=True)
class MeasureCandidate:
    """A schedule to measure, and the arguments to call it with."""

    sch: Schedule
    args_info: tuple[TensorInfo, ...]


@dataclass(frozen=True)
class TuningRecord:
    """A schedule of a workload and how long it took.
    `run_secs` is in seconds, None when it was never measured."""

    trace: Trace
    workload: Workload
    run_secs: tuple[float, ...] | None = None
    target: Target | None = None
    args_info: tuple[TensorInfo, ...] | None = None

    def __post_init__(self) -> None:
        if self.run_secs is not None:
            object.__setattr__(self, "run_secs", tuple(map(float, self.run_secs)))
        if self.args_info is not None:
            object.__setattr__(self, "args_info", tuple(self.args_info))
        if isinstance(self.target, str):
            object.__setattr__(self, "target", Target(self.target))

    @property
    def mean(self) -> float:
        """Mean seconds of a call; infinity for a record without a time."""
        return sum(self.run_secs) / len(self.run_secs) if self.run_secs else float("inf")

    @property
    def failed(self) -> bool:
        """Whether it says that the schedule failed, by times that none can have."""
        return bool(self.run_secs) and self.mean >= FAILED_S / 10

    def schedule(self) -> Schedule:
        """The workload, scheduled. Raises ScheduleError when the trace does not apply."""
        return Schedule.replay(self.workload.mod, self.trace)

    def as_measure_candidate(self) -> MeasureCandidate:
        """The schedule, to be measured again."""
        return MeasureCandidate(self.schedule(), self.args_info or tuple(ArgInfo.from_entry_func(self.workload.mod)))

    def as_json(self) -> list[Any]:
        """The trace, seconds, target and arguments: a line of a database without the workload's number."""
        return [
            json.loads(self.trace.to_json()),
            None if self.run_secs is None else list(self.run_secs),
            None if self.target is None else str(self.target),
            None if self.args_info is None else [info.as_json() for info in self.args_info],
        ]

    @staticmethod
    def from_json(data: Sequence[Any], workload: Workload) -> TuningRecord:
        """The inverse of `as_json`. Raises TuningError, ScheduleError or TargetError for what is no record."""
        if not isinstance(data, list) or len(data) != 4:
            raise TuningError("a record is a list of its trace, seconds, target and arguments")
        trace, run_secs, target, args = data
        if run_secs is not None and not all(isinstance(value, int | float) for value in run_secs):
            raise TuningError(f"{run_secs!r} are no seconds")
        return TuningRecord(
            FaceTrace.from_json(json.dumps(trace)),
            workload,
            None if run_secs is None else tuple(run_secs),
            None if target is None else Target(target),
            None if args is None else tuple(ArgInfo.from_json(info) for info in args),
        )
