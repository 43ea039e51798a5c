"""A WORKLOAD on the command line: a named workload, a kernel of a file, or one that the store knows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from compiler.errors import TunefarmError
from compiler.target.target import Target
from compiler.tir.nodes import PrimFunc
from tuner.errors import TuningError, WorkloadError
from tuner.families.family import FamilySpec
from tuner.kernels.family_jobs import KernelFamily
from tuner.kernels.files import Item
from tuner.kernels.hand_schedules import HandSchedules
from tuner.kernels.jobs import read_job
from tuner.kernels.kernel import CKernel, FunctionKernel
from tuner.kernels.space import config_of
from tuner.records.model import Workload
from tuner.records.store import RecordStore
from tuner.task import TuningTask
from tuner.workloads import WorkloadSpec


class SubjectError(TunefarmError, ValueError, kind="subject"):
    """A word that names no kernel, or several."""


@dataclass(frozen=True)
class ShownSubject:
    """A kernel: its name and key, its operations a call if known.
    `task` and `item` are None where only the store knows it."""

    name: str
    key: str
    flops: float | None
    task: TuningTask | None = None
    item: Item | None = None

    @property
    def json(self) -> dict[str, str]:
        """The fields that `--json` prints."""
        return {"workload": self.name, "workload_key": self.key}


def task_of(item: Item, target: Target) -> TuningTask:
    """The task of a workload or a kernel of one's own."""
    match item.what:
        case WorkloadSpec():
            return TuningTask.from_spec(item.what, target)
        case PrimFunc():
            return TuningTask(item.record["name"], item.what, target)
        case CKernel() | FunctionKernel() | HandSchedules():
            return item.what.task(target)


def values_of(trace: str) -> dict[str, Any]:
    """The parameters' values of a kernel of one's own; none for a schedule."""
    try:
        return config_of(trace)
    except TuningError:
        return {}


def open_store(address: str, word: str) -> RecordStore:
    """The store in which `word` is looked for.
    Without a store, an error says first whether the word names a kernel."""
    try:
        return RecordStore.open(address)
    except TunefarmError:
        if not FamilySpec.is_family(word):
            read_job([word])
        raise


def find_subject(store: RecordStore, word: str, target: Target) -> ShownSubject:
    """Return the kernel that a word means: a workload, FILE:NAME, or a name that the store has.
    A FILE alone will do where it has one kernel. It may also be a workload's key, or the first 8 of its digits or
    more. Raises SubjectError, WorkloadError."""
    try:
        job = read_job([word])
        items = job.items
    except WorkloadError:
        if found := _stored(store, word):
            return ShownSubject(found.name, found.key, found.flops)
        raise
    if len(items) != 1:
        names = [f"{word}:{item.record.get('name', item.what)}" for item in items]
        sized = [f"{word}:{f.what.name}" if isinstance(f.what, KernelFamily) else str(f.what) for f in job.families]
        raise SubjectError(f"{word} has {len(names + sized)} kernels", hint=f"give one of {', '.join(names + sized)}")
    task = task_of(items[0], target)
    return ShownSubject(task.name, task.key, task.flops or None, task, items[0])


def _stored(store: RecordStore, word: str) -> Workload | None:
    """A workload of the store by its name, or its key's first digits.
    Raises SubjectError where several have it."""
    found = store.workloads.called(word)
    if len(found) > 1:
        raise several_called(word, [(w.key, w.created_at) for w in found])
    return next(iter(found), None)


def several_called(word: str, found: Sequence[tuple[str, datetime]]) -> SubjectError:
    """Return the error that several kernels have a name or key.
    `found` are their keys, and when each was first seen."""
    keys = ", ".join(f"{key[:12]} (since {created:%Y-%m-%d})" for key, created in found)
    return SubjectError(f"{len(found)} kernels are called {word}", hint=f"give the key of one: {keys}")
