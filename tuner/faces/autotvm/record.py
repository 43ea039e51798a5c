"""Tuning records as lines of JSON, in the format of autotvm's logs (version 0.2).

So logs move both ways.

A line is `{"input": [target, task, args, kwargs], "config": {…}, "result": [costs, error_no, all_cost, timestamp],
"version": 0.2, "tvm_version": …}`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO

from compiler.errors import TargetError
from compiler.target.target import Target
from tuner.faces.autotvm.errors import AutotvmRecordError
from tuner.faces.autotvm.measure_types import MeasureInput, MeasureResult
from tuner.faces.autotvm.space import ConfigEntity
from tuner.faces.autotvm.task import Task
from tuner.faces.common.arguments import tuples

AUTOTVM_LOG_VERSION = 0.2
_FAILED_COST = 1e9  # what the format has for the time of a failed trial


def measure_str_key(inp: MeasureInput, include_config: bool = True) -> str:
    """A text that is the same for the same target, task and (unless left out) config."""
    config = [str(inp.config)] if include_config else []
    return "".join([str(inp.target), inp.task.name, str(inp.task.args), str(inp.task.kwargs), *config])


def encode(inp: MeasureInput, result: MeasureResult, protocol: str = "json") -> str:
    """The line of a record, without its end. Raises RecordError for a protocol other than "json"."""
    check_protocol(protocol)
    row = {
        "input": [str(inp.target), inp.task.name, inp.task.args, inp.task.kwargs],
        "config": inp.config.to_json_dict(),
        "result": [
            result.costs if result.error_no == 0 else [_FAILED_COST],
            int(result.error_no),
            result.all_cost,
            result.timestamp,
        ],
        "version": AUTOTVM_LOG_VERSION,
        "tvm_version": _maker(),
    }
    return json.dumps(row)


def decode(row: str, protocol: str = "json") -> tuple[MeasureInput, MeasureResult] | None:
    """The input and result of a line; None for a line of a format older than 0.2.
    The task is not bound to its template. Raises RecordError for a line that is no record."""
    check_protocol(protocol)
    try:
        data = json.loads(row)
    except ValueError as error:
        raise AutotvmRecordError(f"not a record: {row[:80]!r} ({error})") from None
    if isinstance(data, dict) and "v" in data and "input" not in data:
        return None
    try:
        spec, name, args, kwargs = data["input"]
        costs, error_no, all_cost, timestamp = data["result"]
        target = Target(spec)
        result = MeasureResult(tuple(float(c) for c in costs), int(error_no), float(all_cost), float(timestamp))
        config = ConfigEntity.from_json_dict(data["config"])
    except TargetError as error:
        raise AutotvmRecordError(f"the record is of a target that is not known here: {error.message}") from None
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, AutotvmRecordError):
            raise
        raise AutotvmRecordError(f"not a record: {row[:80]!r} ({type(error).__name__}: {error})") from None
    if kwargs:
        raise AutotvmRecordError(f"the record's task has arguments by name: {', '.join(kwargs)}")
    task = Task(str(name), tuples(args))
    task.target, task.target_host = target, target.host
    return MeasureInput(target, task, config), result


def load_from_file(filepath: str | bytes | Path | IO[str]) -> Iterator[tuple[MeasureInput, MeasureResult]]:
    """The records of a log, a path or an open file, in order.
    Blank lines and lines that begin with `#` are skipped. Raises RecordError naming the line, OSError."""
    if not isinstance(filepath, str | bytes | Path):
        yield from _read(filepath, getattr(filepath, "name", "the log"))
        return
    with open(filepath, encoding="utf-8") as file:
        yield from _read(file, os.fsdecode(filepath))


def load_from_buffer(file: IO[str]) -> Iterator[tuple[MeasureInput, MeasureResult]]:
    """The records of an open file or a buffer of text, in order. Raises RecordError naming the line."""
    return _read(file, "the log")


def split_workload(in_file: str | Path, clean: bool = True) -> None:
    """Write a log in parts, one a workload, beside it: `NAME.00.log`, `NAME.01.log` and so on.

    `clean`: of the records with the same input only the fastest is kept.
    """
    parts: dict[str, dict[str, tuple[MeasureInput, MeasureResult]]] = {}
    for number, (inp, result) in enumerate(load_from_file(in_file)):
        part = parts.setdefault(measure_str_key(inp, include_config=False), {})
        key = measure_str_key(inp) if clean else str(number)
        if key not in part or (result.error_no == 0 and result.cost < part[key][1].cost):
            part[key] = inp, result
    for number, part in enumerate(parts.values()):
        lines = [encode(inp, result) + "\n" for inp, result in part.values()]
        Path(f"{in_file}.{number:02d}.log").write_text("".join(lines), encoding="utf-8")


def _read(file: IO[str], name: str) -> Iterator[tuple[MeasureInput, MeasureResult]]:
    for number, line in enumerate(file, 1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            found = decode(line)
        except AutotvmRecordError as error:
            raise AutotvmRecordError(f"{name}, line {number}: {error.message}") from None
        if found is not None:
            yield found


def pick_best(in_file: str | Path, out_file: str | Path) -> None:
    """Write the fastest record of each workload on each target of one log to another.
    Raises RecordError, OSError."""
    best: dict[str, tuple[MeasureInput, MeasureResult]] = {}
    for inp, result in load_from_file(in_file):
        key = measure_str_key(inp, include_config=False)
        if result.error_no == 0 and (key not in best or result.cost < best[key][1].cost):
            best[key] = inp, result
    lines = [encode(inp, result) + "\n" for inp, result in best.values()]
    Path(out_file).write_text("".join(lines), encoding="utf-8")


def check_protocol(protocol: str) -> None:
    """Raise RecordError for a protocol other than "json"."""
    if protocol != "json":
        raise AutotvmRecordError(f"records are JSON, not {protocol!r}")


def _maker() -> str:
    try:
        return f"tunefarm-{version('tunefarm')}"
    except PackageNotFoundError:
        return "tunefarm"
