"""The best config recorded for a workload, as a context that is asked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from compiler.target.target import Target
from tuner.faces.autotvm.dispatch_context import DispatchContext, Workload
from tuner.faces.autotvm.errors import ConfigError
from tuner.faces.autotvm.measure_types import MeasureInput, MeasureResult
from tuner.faces.autotvm.record import load_from_file
from tuner.faces.autotvm.space import Config

Records = str | bytes | Path | IO[str] | Iterable[tuple[MeasureInput, MeasureResult]]


class ApplyHistoryBest(DispatchContext):
    """Answers with the fastest config recorded for a workload: on the very target asked for, else on its `-model`,
    else on a target with one of its keys (`cpu`, …).

    `records` is a log file (a path or an open file), an iterable of (input, result) pairs, or several of these.
    """

    def __init__(self, records: Records | Iterable[Records] | None) -> None:
        super().__init__()
        self.best_by_target: dict[tuple[str, Workload], tuple[MeasureInput, MeasureResult]] = {}
        self.best_by_model: dict[tuple[str, Workload], tuple[MeasureInput, MeasureResult]] = {}
        self.best_by_targetkey: dict[tuple[str, Workload], tuple[MeasureInput, MeasureResult]] = {}
        self._given: dict[tuple[str, Workload], Config] = {}
        if records is not None:
            self.load(records)

    def load(self, records: Records | Iterable[Records]) -> None:
        """Take more records in. Raises RecordError for a file with a line that is none."""
        for inp, result in _pairs(records):
            if result.error_no != 0:
                continue
            workload, best = inp.task.workload, (inp, result)
            for table, names in (
                (self.best_by_target, [str(inp.target)]),
                (self.best_by_model, [_model(inp.target)]),
                (self.best_by_targetkey, list(inp.target.keys)),
            ):
                for name in filter(None, names):
                    known = table.get((name, workload))
                    if known is None or result.cost < known[1].cost:
                        table[name, workload] = best

    def _query_inside(self, target: Target | None, workload: Workload | None) -> Config | None:
        if workload is None:
            return None
        if target is None:
            raise ConfigError(
                "which config is best depends on the target, and none is current",
                hint='build within `with tvm.target.Target("llvm"):`',
            )
        names = [str(target), _model(target), *target.keys]
        for name in filter(None, names):
            if (name, workload) in self._given:
                return self._given[name, workload]
        for table, tried in (
            (self.best_by_target, names[:1]),
            (self.best_by_model, names[1:2]),
            (self.best_by_targetkey, names[2:]),
        ):
            for name in filter(None, tried):
                if (name, workload) in table:
                    return table[name, workload][0].config
        return None

    def update(self, target: Target | None, workload: Workload, cfg: Config) -> None:
        """Answer with `cfg` for this workload, on the target, its model and its keys."""
        if target is None:
            raise ConfigError("an update needs a target")
        for name in filter(None, (str(target), _model(target), *target.keys)):
            self._given[name, workload] = cfg


def apply_history_best(records: Records | Iterable[Records] | None) -> ApplyHistoryBest:
    """A context whose templates are built with the fastest config recorded; see `ApplyHistoryBest`."""
    return ApplyHistoryBest(records)


def _pairs(records: Any) -> Iterator[tuple[MeasureInput, MeasureResult]]:
    if isinstance(records, str | bytes | Path) or hasattr(records, "read"):
        yield from load_from_file(records)
        return
    for item in records:
        if isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], MeasureInput):
            yield item
        else:
            yield from _pairs(item)


def _model(target: Target) -> str:
    return "" if target.model == "unknown" else target.model
