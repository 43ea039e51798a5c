"""A database in two files of JSON lines: workloads, and records that refer to them by number.

Lines are written as Apache TVM writes them, so that either reads the other's. A workload that TVM's text cannot hold
is written as TVMScript, and a trace with a step of our own in our own form; TVM does not read such files. Lines are
appended under a lock, so several processes may share the files. Another one's lines are seen when the database is
opened again.

A third file exists only where records were given back (`Database.give_back`). A line of it is a workload's number, a
target, the trace that is kept or null, and the number of records up to which others are left out. TVM does not read it.
"""

from __future__ import annotations

import fcntl
import json
import logging
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from compiler.errors import ScheduleError, TunefarmError
from compiler.ir.module import IRModule
from compiler.schedule.core.field_trace import FieldTraceError
from compiler.schedule.core.trace import Trace
from compiler.target.target import Target
from tuner.errors import TuningError
from tuner.faces.common import tvm_database
from tuner.faces.common.tvm_graph import ForeignError
from tuner.faces.common.tvm_trace import replay
from tuner.faces.meta_schedule.databases.database import Database, Equality, MemoryDatabase
from tuner.faces.meta_schedule.record import ArgInfo, TuningRecord, Workload, entry

T = TypeVar("T")
_log = logging.getLogger("tunefarm.meta_schedule")


class JSONDatabase(MemoryDatabase):
    """Records in `path_workload` and `path_tuning_record`, by default in the folder `work_dir`.

    The records that were given back are listed beside `path_tuning_record`, in a file whose name ends in
    `.given_back.json`.

    Missing files are made, unless `allow_missing` is False. A damaged line raises TuningError that names it.
    """

    def __init__(
        self, path_workload: str | None = None, path_tuning_record: str | None = None, *, work_dir: str | None = None,
        allow_missing: bool = True, module_equality: Equality = "structural",
    ) -> None:  # fmt: skip
        super().__init__(module_equality)
        folder = Path(work_dir) if work_dir is not None else None
        self._workload_file = _path(path_workload, folder, "database_workload.json", "path_workload")
        self._record_file = _path(path_tuning_record, folder, "database_tuning_record.json", "path_tuning_record")
        self._back_file = self._record_file.with_suffix(".given_back.json")
        for path in (self._workload_file, self._record_file):
            _make(path, allow_missing)
        self._numbers: dict[str, int] = {}
        self._load()

    @property
    def path_workload(self) -> str:
        """Where the workloads are."""
        return str(self._workload_file)

    @property
    def path_tuning_record(self) -> str:
        """Where the records are."""
        return str(self._record_file)

    def commit_workload(self, mod: IRModule) -> Workload:
        new = not self.has_workload(mod)
        workload = super().commit_workload(mod)
        if new:
            self._numbers[workload.key] = self._append_workload(workload)
        return workload

    def commit_tuning_record(self, record: TuningRecord) -> None:
        super().commit_tuning_record(record)
        _append(self._record_file, [self._numbers[record.workload.key], _record_line(record)])

    def give_back(self, mod: IRModule, target: Target, keep: Trace | None = None) -> bool:
        super().give_back(mod, target, keep)
        number = self._numbers.get(Workload(mod).key)
        if number is not None:
            count = len(self._record_file.read_bytes().splitlines())
            _append(self._back_file, [number, str(target), None if keep is None else keep.to_json(), count])
        return True

    def _append_workload(self, workload: Workload) -> int:
        """The workload's number: its line, which another process may have written meanwhile."""
        with self._workload_file.open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            lines, new = file.read().splitlines(), _workload_line(workload)
            for number, line in enumerate(lines):
                if json.loads(line)[0] in (workload.key, new[0]):
                    return number
            file.write(json.dumps(new).encode() + b"\n")
            return len(lines)

    def _load(self) -> None:
        workloads: list[Workload] = []
        for place, data in _lines(self._workload_file):
            workload = _read(place, partial(_workload, data))
            workloads.append(workload)
            self._workloads.setdefault(workload.key, workload)
            self._numbers.setdefault(workload.key, len(workloads) - 1)
        counts = [0]  # of records after each line
        for place, data in _lines(self._record_file):
            try:
                self._keep(_read(place, partial(_record, data, workloads)))
            except _LeftOut as left:
                _log.warning("%s is left out: %s", place, left)
            counts.append(len(self._records))
        for place, data in _lines(self._back_file) if self._back_file.exists() else ():
            number, target, keep, lines = _read(place, partial(_given_back, data, len(workloads)))
            self._leave_out(workloads[number].key, target, keep, counts[min(lines, len(counts) - 1)])


class _LeftOut(Exception):
    """A record of Apache TVM that is one, and cannot be carried out here."""


def _workload_line(workload: Workload) -> list[str]:
    """A workload as TVM writes it, where that keeps all of it."""
    try:
        line = tvm_database.workload_line(workload.mod, workload.key)
        kept = Workload(IRModule(dict(tvm_database.read_workload(line))))
    except ForeignError:
        return workload.as_json()
    return line if kept.key == workload.key else workload.as_json()


def _workload(data: Any) -> Workload:
    if not tvm_database.is_workload(data):
        return Workload.from_json(data)
    return Workload(IRModule(dict(tvm_database.read_workload(data))))


def _record_line(record: TuningRecord) -> list[Any]:
    """A record as TVM writes it, where it has an instruction for each step of the trace."""
    try:
        trace = record.trace.as_json()
    except FieldTraceError:
        return record.as_json()
    _, seconds, _, args = record.as_json()
    return [trace, seconds, None if record.target is None else record.target.export(), args]


def _foreign(data: list[Any], workload: Workload) -> TuningRecord:
    """A record that TVM wrote. Raises _LeftOut where a step of its trace has no counterpart here."""
    trace, seconds, target, args = data
    if seconds is not None and not all(isinstance(value, int | float) for value in seconds):
        raise TuningError(f"{seconds!r} are no seconds")
    try:
        made = replay(entry(workload.mod), trace).trace
        read = None if target is None else tvm_database.read_target(target)
    except (ForeignError, ScheduleError) as error:
        raise _LeftOut(error.message) from None
    return TuningRecord(
        made,
        workload,
        None if seconds is None else tuple(seconds),
        read,
        None if args is None else tuple(ArgInfo.from_json(info) for info in args),
    )


def _record(data: Any, workloads: list[Workload]) -> TuningRecord:
    match data:
        case [int(number), [list(), _, _, _] as fields] if 0 <= number < len(workloads):
            return _foreign(fields, workloads[number])
        case [int(number), [*fields]] if 0 <= number < len(workloads):
            return TuningRecord.from_json(fields, workloads[number])
        case [int(number), _]:
            raise TuningError(f"there is no workload {number}")
    raise TuningError("a line is a workload's number and a record")


def _given_back(data: Any, workloads: int) -> tuple[int, str, str | None, int]:
    match data:
        case [int(number), str(target), str() | None as keep, int(lines)] if 0 <= number < workloads and lines >= 0:
            return number, target, keep, lines
    raise TuningError("a line is a workload's number, a target, a trace or null, and a number of records")


def _path(given: str | None, folder: Path | None, name: str, option: str) -> Path:
    if given is not None:
        return Path(given)
    if folder is None:
        raise TuningError(f"where are the records? give {option} or work_dir")
    return folder / name


def _make(path: Path, allow_missing: bool) -> None:
    if path.is_file():
        return
    if not allow_missing:
        raise TuningError(f"there is no file {path}", hint="allow_missing=True makes it")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()


def _append(path: Path, data: Any) -> None:
    line = json.dumps(data).encode() + b"\n"
    with path.open("ab", buffering=0) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(line)


def _lines(path: Path) -> Iterator[tuple[str, Any]]:
    """The file's lines as data, each with its place; a last line that was not finished is an error too."""
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        place = f"{path}, line {number}"
        try:
            yield place, json.loads(line)
        except ValueError as error:
            raise TuningError(f"{place}: not JSON: {error}", hint="take the line out, or use a copy") from None


def _read(place: str, make: Callable[[], T]) -> T:
    try:
        return make()
    except TunefarmError as error:
        raise TuningError(
            f"{place}: {error.message}",
            hint="records of Apache TVM are brought in with `tunefarm records import`; else take the line out",
        ) from None


Database.KINDS["json"] = JSONDatabase
