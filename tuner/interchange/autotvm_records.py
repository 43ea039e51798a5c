"""Logs of autotvm, brought into the record store where their meaning carries over.

A config means something to its template only, so the template has to be registered here, under the log's name. The
workload is then what the template computes. A record is kept if the template can be instantiated with its config:
its knobs are all there, and the schedule is legal for our engine. The rest of a log has no use here: `code_hash`,
the version of the tool, and how long compiling and measuring took together.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from compiler.errors import TunefarmError
from tuner.errors import TuningError
from tuner.faces.autotvm.engine_face import ConfigProposal, tuning_task
from tuner.faces.autotvm.errors import ConfigError
from tuner.faces.autotvm.measure_types import MeasureInput, MeasureResult
from tuner.faces.autotvm.record import decode
from tuner.faces.autotvm.task import Task, create
from tuner.faces.common.measure_error import MeasureErrorNo
from tuner.interchange.foreign import TIMES, ForeignTrial, ImportOutcome, Kept, LeftOut, store_trials
from tuner.records.model import NewWorkload
from tuner.records.store import RecordStore

_NO_PLACE = ("the template's code_hash", "how long it took to compile and measure", "the tool's version")


@dataclass(frozen=True)
class CarriedConfig:
    """A record whose template is known here and takes its config."""

    line: int
    task: Task
    trial: ForeignTrial

    @property
    def kept(self) -> Kept:
        return Kept(self.line, (TIMES, *_NO_PLACE))


def is_log(path: Path) -> bool:
    """Whether `path` is a file whose first record is one of autotvm's."""
    try:
        with path.open(encoding="utf-8") as file:
            first = next((line for line in file if _is_record(line)), "")
        data = json.loads(first)
    except (OSError, ValueError):
        return False
    return isinstance(data, dict) and {"input", "config", "result"} <= data.keys()


def _is_record(line: str) -> bool:
    return bool(line.strip()) and not line.startswith("#")


def read(path: Path) -> Iterator[CarriedConfig | LeftOut]:
    """The records of a log, in order. A faulty record is a `Left` that says why. Raises OSError."""
    tasks: dict[str, Task] = {}
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not _is_record(line):
                continue
            try:
                yield _record(number, line, tasks)
            except TunefarmError as error:
                hint = f" ({error.hint})" if error.hint and isinstance(error, ConfigError) else ""
                yield LeftOut(number, error.message.split("\n")[0] + hint)
            except Exception as error:  # of the user's template, which may raise anything
                yield LeftOut(number, f"its template fails with {type(error).__name__}: {error}")


def _record(number: int, line: str, tasks: dict[str, Task]) -> CarriedConfig | LeftOut:
    found = decode(line)
    if found is None:
        return LeftOut(number, "its format is older than 0.2")
    inp, result = found
    if result.error_no != MeasureErrorNo.NO_ERROR:
        return LeftOut(number, f"the candidate failed there: {_failure(result)}")
    if not result.costs or not all(isinstance(c, float) and 0 < c < float("inf") for c in result.costs):
        return LeftOut(number, "it has no times")
    task = _task(inp, tasks)
    if missing := sorted(set(task.config_space.space_map) - set(inp.config.keys())):
        return LeftOut(number, f"its config lacks {', '.join(missing)}, which the template has here")
    if extra := sorted(set(inp.config.keys()) - set(task.config_space.space_map)):
        return LeftOut(number, f"its config has {', '.join(extra)}, which the template has not here")
    task.prim_func(inp.config)
    samples = tuple(float(c) for c in result.costs)
    at = datetime.fromtimestamp(result.timestamp, UTC) if result.timestamp > 0 else None
    return CarriedConfig(number, task, ForeignTrial(ConfigProposal(task, inp.config).trace_json, samples, at))


def _failure(result: MeasureResult) -> str:
    known = {int(kind) for kind in MeasureErrorNo}
    return MeasureErrorNo(result.error_no).name.lower() if result.error_no in known else f"error {result.error_no}"


def _task(inp: MeasureInput, tasks: dict[str, Task]) -> Task:
    """The record's task with its config space; its template runs once for all records of a task."""
    key = repr((str(inp.target), inp.task.workload))
    if key not in tasks:
        tasks[key] = create(inp.task.name, inp.task.args, inp.target.resolved())
    return tasks[key]


def bring(store: RecordStore, path: Path) -> ImportOutcome:
    """Put the records at `path` that carry over into `store`, a run for each task.
    Raises TuningError when the file cannot be read."""
    outcome = ImportOutcome()
    found: dict[int, tuple[Task, list[ForeignTrial]]] = {}
    try:
        for record in read(path):
            if isinstance(record, LeftOut):
                outcome.left.append(record)
            else:
                outcome.kept.append(record.kept)
                found.setdefault(id(record.task), (record.task, []))[1].append(record.trial)
    except (OSError, UnicodeDecodeError) as error:
        raise TuningError(f"{path} cannot be read: {error}") from None
    for task, trials in found.values():
        tuned = tuning_task(task)
        workload = NewWorkload(key=tuned.key, name=tuned.name, function=tuned.func.script(), flops=tuned.flops or None)
        store_trials(store, workload, str(tuned.target), trials, outcome)
    return outcome
