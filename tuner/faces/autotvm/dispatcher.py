"""The best config recorded for a workload, as a context that is asked."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import IO

from compiler.target.target import Target
from tuner.faces.autotvm.dispatch_context import DispatchContext, Workload
from tuner.faces.autotvm.errors import ConfigError
from tuner.faces.autotvm.measure_types import MeasureInput, MeasureResult
from tuner.faces.autotvm.record import load_from_file
from tuner.faces.autotvm.space import Config
from tuner.faces.common.dispatch import HistoryTables, pairs_in

_Table = dict[tuple[str, Workload], tuple[MeasureInput, MeasureResult]]
Records = str | bytes | Path | IO[str] | Iterable[tuple[MeasureInput, MeasureResult]]


class ApplyHistoryBest(DispatchContext):
    """Answers with the fastest config recorded for a workload.

    It is one on the very target asked for, else on its `-model`, else on a target with one of its keys (`cpu`, …).
    `records` is a log file (a path or an open file), an iterable of (input, result) pairs, or several of these.
    """

    def __init__(self, records: Records | Iterable[Records] | None) -> None:
        super().__init__()
        self._tables: HistoryTables[_Table] = HistoryTables(dict)
        self.best_by_target = self._tables.by_target
        self.best_by_model = self._tables.by_model
        self.best_by_targetkey = self._tables.by_key
        self._given: dict[tuple[str, Workload], Config] = {}
        if records is not None:
            self.load(records)

    def load(self, records: Records | Iterable[Records]) -> None:
        """Take more records in. Raises RecordError for a file with a line that is none."""
        for inp, result in pairs_in(records, load_from_file, MeasureInput):
            if result.error_no != 0:
                continue
            for table, name in self._tables.places(inp.target):
                known = table.get((name, inp.task.workload))
                if known is None or result.cost < known[1].cost:
                    table[name, inp.task.workload] = inp, result

    def _query_inside(self, target: Target | None, workload: Workload | None) -> Config | None:
        if workload is None:
            return None
        if target is None:
            raise ConfigError(
                "which config is best depends on the target, and none is current",
                hint='build within `with tvm.target.Target("llvm"):`',
            )
        for name in HistoryTables.names(target):
            if (name, workload) in self._given:
                return self._given[name, workload]
        for table, name in self._tables.places(target):
            if (name, workload) in table:
                return table[name, workload][0].config
        return None

    def update(self, target: Target | None, workload: Workload, cfg: Config) -> None:
        """Answer with `cfg` for this workload, on the target, its model and its keys."""
        if target is None:
            raise ConfigError("an update needs a target")
        for name in HistoryTables.names(target):
            self._given[name, workload] = cfg


def apply_history_best(records: Records | Iterable[Records] | None) -> ApplyHistoryBest:
    """A context whose templates are built with the fastest config recorded; see `ApplyHistoryBest`."""
    return ApplyHistoryBest(records)
