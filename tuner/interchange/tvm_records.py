"""Tuning logs of Apache TVM's MetaSchedule, as far as they have a meaning in the record store.

The workload and the steps of the schedule carry over. The function is read, and each trace is carried out on it by
our engine, so what is stored is a trace that applies. The times do not (see `tuner.interchange.foreign`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compiler.errors import TunefarmError
from compiler.target.target import Target
from compiler.tir.nodes import PrimFunc
from compiler.tir.text.print_func import workload_key
from tuner.errors import TuningError
from tuner.faces.common.tvm_database import read_workload
from tuner.faces.common.tvm_graph import ForeignError
from tuner.faces.common.tvm_trace import replay
from tuner.interchange.foreign import TIMES, ForeignTrial, ImportOutcome, Kept, LeftOut, store_trials
from tuner.records.model import NewWorkload
from tuner.records.store import RecordStore
from tuner.task import count_flops

WORKLOADS = "database_workload.json"
RECORDS = "database_tuning_record.json"
_FAILED_S = 1e9  # the seconds MetaSchedule notes for a candidate that failed


@dataclass(frozen=True)
class ConvertedRecord:
    """A record whose workload and schedule carried over; times in seconds, as the log has them.
    `lost` is what else it says, of which nothing is kept."""

    line: int
    name: str
    func: PrimFunc
    target: Target
    trace: str
    samples: tuple[float, ...]
    lost: tuple[str, ...] = ()

    @property
    def kept(self) -> Kept:
        return Kept(self.line, (TIMES, *self.lost))


def is_database(path: Path) -> bool:
    """Whether `path` is a MetaSchedule work folder, or its file of records."""
    return path.joinpath(RECORDS).is_file() if path.is_dir() else path.name == RECORDS


def read(path: Path) -> Iterator[ConvertedRecord | LeftOut]:
    """The records of a work folder (or of its file of records), in order.

    Raises TuningError when there are no such files; what is wrong with a record is said in its `Left`.
    """
    folder = path if path.is_dir() else path.parent
    if not folder.joinpath(WORKLOADS).is_file():
        raise TuningError(f"there is no {WORKLOADS} in {folder}", hint="give the work folder of MetaSchedule's run")
    workloads = [_workload(line) for line in folder.joinpath(WORKLOADS).read_bytes().splitlines()]
    with folder.joinpath(RECORDS).open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                yield _record(number, line, workloads)
            except TunefarmError as error:
                yield LeftOut(number, error.message.split("\n")[0])


def _workload(line: bytes) -> dict[str, PrimFunc] | ForeignError:
    """The functions of a workload's line, or why they can't be read."""
    try:
        return read_workload(json.loads(line))
    except ValueError as error:
        return ForeignError(f"its workload is damaged: {error}")
    except ForeignError as error:
        return error


def _record(number: int, line: bytes, workloads: list[dict[str, PrimFunc] | ForeignError]) -> ConvertedRecord | LeftOut:
    try:
        data = json.loads(line)
    except ValueError as error:
        return LeftOut(number, f"not JSON: {error}")
    match data:
        case [int(at), [trace, [*secs], dict(target), *_]] if 0 <= at < len(workloads):
            pass
        case _:
            return LeftOut(number, "no record as MetaSchedule writes it")
    functions = workloads[at]
    if isinstance(functions, ForeignError):
        return LeftOut(number, functions.message)
    if len(functions) != 1:
        return LeftOut(number, f"its workload has {len(functions)} functions")
    if not secs or not all(isinstance(s, int | float) and 0 < s < _FAILED_S for s in secs):
        return LeftOut(number, "the candidate failed there, and the log does not say how")
    ((name, func),) = functions.items()
    schedule = replay(func, trace)
    found, lost = _target(target)
    return ConvertedRecord(number, name, func, found, schedule.trace.to_json(), tuple(map(float, secs)), lost)


def _target(options: dict[str, Any]) -> tuple[Target, tuple[str, ...]]:
    """The target, without what does not change the code and is unknown here; that by name."""
    known = ("kind", "mcpu", "mattr", "num-cores")
    wanted = {name: options[name] for name in known if options.get(name)}
    if wanted.get("kind") != "llvm":
        raise ForeignError(f"its target is of kind {wanted.get('kind')!r}, which is not read")
    # The triple's vendor is no part of the machine; keys and a tag say again what the rest says.
    lost = [name for name in options if options[name] and name not in (*known, "keys", "tag")]
    return Target(wanted).resolved(), tuple(f"its target's {name} {options[name]}" for name in lost)


# ---------------------------------------------------------------------------------- the store


def bring(store: RecordStore, path: Path) -> ImportOutcome:
    """Put the records at `path` that carry over into `store`, a run for each workload and target."""
    outcome = ImportOutcome()
    found: dict[tuple[str, str], list[ConvertedRecord]] = {}
    for record in read(path):
        if isinstance(record, LeftOut):
            outcome.left.append(record)
        else:
            outcome.kept.append(record.kept)
            found.setdefault((workload_key(record.func), str(record.target)), []).append(record)
    for (key, target), records in found.items():
        func, name = records[0].func, records[0].name
        workload = NewWorkload(key=key, name=name, function=func.script(), flops=count_flops(func) or None)
        store_trials(store, workload, target, [ForeignTrial(r.trace, r.samples) for r in records], outcome)
    return outcome
