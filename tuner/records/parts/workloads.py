"""Workloads: functions to tune, by key."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from tuner.records.db.base import StorePart, page_size
from tuner.records.lookup import near
from tuner.records.model import NewWorkload, TargetRecord, Workload
from tuner.records.runs import catalog


class WorkloadRecords(StorePart):
    """Part of `RecordStore`, whose promises hold for each method."""

    def upsert(self, new: NewWorkload) -> Workload:
        """The workload with that key, made if it is new.
        An existing one keeps its facts and gains missing ones."""
        return self._write(lambda c: catalog.upsert_workload(c, new))

    def find(self, key: str) -> Workload | None:
        """The workload with that key."""
        return self._read(lambda c: catalog.find_workload(c, key))

    def page(self, after: int = 0, limit: int = 100) -> tuple[Workload, ...]:
        """Workloads with an id above `after`, by id."""
        return self._read(lambda c: catalog.workloads(c, after, page_size(limit)))

    def called(self, word: str, limit: int = 100) -> tuple[Workload, ...]:
        """Workloads of this name, or whose key begins with it (8 digits or more), by id."""
        return self._read(lambda c: catalog.workloads_called(c, word, page_size(limit)))

    def source(self, key: str) -> Mapping[str, Any] | None:
        """The `file`, `digest` and `name` that a workload's newest run keeps of the file that defines it.

        None for one that no run took from a file.
        """
        return self._read(lambda c: catalog.workload_source(c, key))

    def functions(self, workload_keys: Collection[str]) -> dict[str, str]:
        """The scripts of workloads, by key, of those that there are."""
        return self._read(lambda c: near.functions(c, sorted(workload_keys)))


class TargetRecords(StorePart):
    """Part of `RecordStore`, whose promises hold for each method."""

    def upsert(self, target: str) -> TargetRecord:
        """The target by its canonical text, made if it is new. Raises TargetError."""
        return self._write(lambda c: catalog.upsert_target(c, target))

    def page(self, limit: int = 100) -> tuple[TargetRecord, ...]:
        """The targets tuned for, in the order they were first seen."""
        return self._read(lambda c: catalog.targets(c, page_size(limit)))
