"""A database in two files of JSON lines: workloads, and records that refer to them by number.

Lines are appended under a lock, so several processes may share the files; another one's lines are seen when
the database is opened again.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from compiler.errors import TunefarmError
from compiler.ir.module import IRModule
from tuner.errors import TuningError
from tuner.faces.meta_schedule.database import Database, Equality, MemoryDatabase
from tuner.faces.meta_schedule.record import TuningRecord, Workload

T = TypeVar("T")


class JSONDatabase(MemoryDatabase):
    """Records in `path_workload` and `path_tuning_record`, by default in the folder `work_dir`.

    Missing files are made, unless `allow_missing` is False. A damaged line raises TuningError that names it.
    """

    def __init__(
        self,
        path_workload: str | None = None,
        path_tuning_record: str | None = None,
        *,
        work_dir: str | None = None,
        allow_missing: bool = True,
        module_equality: Equality = "structural",
    ) -> None:
        super().__init__(module_equality)
        folder = Path(work_dir) if work_dir is not None else None
        self._workload_file = _path(path_workload, folder, "database_workload.json", "path_workload")
        self._record_file = _path(path_tuning_record, folder, "database_tuning_record.json", "path_tuning_record")
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
        _append(self._record_file, [self._numbers[record.workload.key], record.as_json()])

    def _append_workload(self, workload: Workload) -> int:
        """The workload's number: its line, which another process may have written meanwhile."""
        with self._workload_file.open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            lines = file.read().splitlines()
            for number, line in enumerate(lines):
                if json.loads(line)[0] == workload.key:
                    return number
            file.write(json.dumps(workload.as_json()).encode() + b"\n")
            return len(lines)

    def _load(self) -> None:
        workloads: list[Workload] = []
        for place, data in _lines(self._workload_file):
            workload = _read(place, partial(Workload.from_json, data))
            workloads.append(workload)
            self._workloads.setdefault(workload.key, workload)
            self._numbers.setdefault(workload.key, len(workloads) - 1)
        for place, data in _lines(self._record_file):
            self._keep(_read(place, partial(_record, data, workloads)))


def _record(data: Any, workloads: list[Workload]) -> TuningRecord:
    match data:
        case [int(number), [*fields]] if 0 <= number < len(workloads):
            return TuningRecord.from_json(fields, workloads[number])
        case [int(number), _]:
            raise TuningError(f"there is no workload {number}")
    raise TuningError("a line is a workload's number and a record")


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
