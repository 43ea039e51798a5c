"""Records as lines of JSON: written as they are read, checked in full before anything of them is used."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, assert_never, cast

import msgspec

from compiler.errors import TunefarmError
from tuner.interchange.entries import (
    FORMAT,
    VERSION,
    DeviceEntry,
    EndEntry,
    Entry,
    FamilyEntry,
    HeaderEntry,
    ModelEntry,
    ModelTimeEntry,
    RunEntry,
    TrialEntry,
    WorkloadEntry,
    new_family,
    new_model_time,
    new_trial,
    new_versions,
)
from tuner.records.errors import InvalidRecord
from tuner.records.lookup.keys import candidate_digest
from tuner.records.model import RunState
from tuner.records.model_store.writing import check_time, check_version
from tuner.records.runs.catalog import parse_target
from tuner.records.runs.ingest import check_trial

MAX_LINE = 64 << 20
"""Bytes a line may have: a trace of the longest kind is a few megabytes."""

_UNPACKED = 64 << 20
_RATIO = 200
"""Bytes that a gzip file may unpack to: so many, and so many times its own. Records shrink to a tenth."""
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Entry)


def dump(entries: Iterable[Entry], out: BinaryIO) -> int:
    """Write `entries`, a line each; returns how many of them are trials."""
    trials = 0
    for entry in entries:
        out.write(_encoder.encode(entry))
        out.write(b"\n")
        trials += isinstance(entry, TrialEntry)
    return trials


def load(path: Path) -> Iterator[Entry]:
    """The entries of the file at `path` (gzip or plain), in order, each checked against those before it.

    Raises InvalidRecord naming the line for text that is no entry, refers to nothing, contradicts itself or ends
    early, OSError when the file can't be read. Read it through once before storing any of it.
    """
    checker = _Checker()
    number = 0
    with open_records(path) as file:
        while line := file.readline(MAX_LINE + 1):
            number += 1
            if len(line) > MAX_LINE:
                raise InvalidRecord(f"{path}, line {number}: longer than {MAX_LINE >> 20} MiB")
            try:
                entry = _decoder.decode(line)
                checker.take(entry)
            except msgspec.DecodeError as error:
                raise InvalidRecord(f"{path}, line {number}: not a record: {error}", hint=_HINT) from None
            except TunefarmError as error:
                raise InvalidRecord(f"{path}, line {number}: {error.message}", hint=_HINT) from None
            yield entry
    if not checker.ended:
        raise InvalidRecord(f"{path} ends after line {number} without its last line: it was cut short", hint=_HINT)


_HINT = "nothing of the file was stored; files of records are made by `tunefarm records export`"


class _Bounded:
    """Reads lines of at most `most` bytes in all: a little gzip can unpack to no end.
    Raises InvalidRecord for more."""

    def __init__(self, file: gzip.GzipFile, most: int, path: Path) -> None:
        self._file, self._left, self._path = file, most, path

    def readline(self, size: int = -1) -> bytes:
        line = self._file.readline(size)
        self._left -= len(line)
        if self._left < 0:
            raise InvalidRecord(f"{self._path} unpacks to far more than records do", hint=_HINT)
        return line


@contextmanager
def open_records(path: Path) -> Iterator[BinaryIO]:
    """The file's bytes, unpacked if they are gzip's. A damaged gzip file raises InvalidRecord."""
    with path.open("rb") as raw:
        packed = raw.peek(2)[:2] == b"\x1f\x8b"
        try:
            if packed:
                most = _UNPACKED + _RATIO * os.fstat(raw.fileno()).st_size
                with gzip.open(raw) as unpacked:
                    yield cast(BinaryIO, _Bounded(unpacked, most, path))
            else:
                yield raw
        except (EOFError, gzip.BadGzipFile) as error:
            raise InvalidRecord(f"{path}: damaged gzip data: {error}", hint=_HINT) from None


@dataclass
class _Checker:
    """The content of a file so far."""

    lines: int = 0
    workloads: dict[str, WorkloadEntry] = field(default_factory=dict)
    devices: set[str] = field(default_factory=set)
    runs: set[str] = field(default_factory=set)
    digests: set[str] = field(default_factory=set)
    tasks: int = 0
    sequence: int = 0
    trials: int = 0
    models: int = 0
    ended: bool = False

    def take(self, entry: Entry) -> None:
        """Check `entry`; raises InvalidRecord, TargetError."""
        self.lines += 1
        if self.ended:
            raise InvalidRecord("there is more after the last line")
        if (self.lines == 1) != isinstance(entry, HeaderEntry):
            raise InvalidRecord("the first line, and no other, is a header")
        match entry:
            case HeaderEntry(format=name, version=version):
                if name != FORMAT or version != VERSION:
                    raise InvalidRecord(f"the format is {name!r} version {version}, not {FORMAT!r} version {VERSION}")
            case WorkloadEntry(key=key):
                self.workloads[key] = entry
            case DeviceEntry(ref=ref):
                self.devices.add(ref)
            case RunEntry():
                self._run(entry)
            case TrialEntry():
                self._trial(entry)
            case ModelEntry():
                for made in new_versions(entry, self.workloads):
                    check_version(made)
                self.models += 1
            case ModelTimeEntry():
                self._model_time(entry)
            case FamilyEntry():
                parse_target(entry.target)
                new_family(entry, None)
            case EndEntry():
                self.ended = True
                if (entry.runs, entry.trials) != (len(self.runs), self.trials):
                    raise InvalidRecord(
                        f"{entry.runs} runs and {entry.trials} trials are promised, but there are "
                        f"{len(self.runs)} and {self.trials}"
                    )
            case _:
                assert_never(entry)

    def _run(self, entry: RunEntry) -> None:
        if entry.ref in self.runs:
            raise InvalidRecord(f"run {entry.ref} is there twice")
        if entry.state not in RunState.__members__.values():
            raise InvalidRecord(f"{entry.state!r} is no state of a run")
        for task in entry.tasks:
            if task.workload not in self.workloads:
                raise InvalidRecord(f"no workload {task.workload} comes before it")
            parse_target(task.target)
            if task.budget < 0:
                raise InvalidRecord("a task's trial budget is not negative")
        if not entry.tasks:
            raise InvalidRecord("a run needs at least one task")
        self.runs.add(entry.ref)
        self.tasks, self.sequence = len(entry.tasks), 0

    def _model_time(self, entry: ModelTimeEntry) -> None:
        if not self.models:
            raise InvalidRecord("no model comes before this measurement")
        if entry.device not in self.devices:
            raise InvalidRecord(f"no device {entry.device!r} comes before it")
        parse_target(entry.target)
        check_time(new_model_time(entry, 0, 0))

    def _trial(self, entry: TrialEntry) -> None:
        if not self.runs:
            raise InvalidRecord("no run comes before this trial")
        if entry.sequence != self.sequence + 1:
            raise InvalidRecord(f"trial {entry.sequence} follows trial {self.sequence}")
        if not 0 <= entry.task < self.tasks:
            raise InvalidRecord(f"the run has no task {entry.task}")
        if entry.device is not None and entry.device not in self.devices:
            raise InvalidRecord(f"no device {entry.device!r} comes before it")
        check_trial(new_trial(entry, 0, None if entry.device is None else 0))
        # the digest names the candidate everywhere, so it has to be the trace's
        if entry.trace is not None and candidate_digest(entry.trace) != entry.digest:
            raise InvalidRecord(f"the trace's digest is not {entry.digest}: one of them was changed")
        self.sequence, self.trials = entry.sequence, self.trials + 1
