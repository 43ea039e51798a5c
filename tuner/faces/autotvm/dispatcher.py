"""Which config a template is built with: contexts that are asked, the innermost first."""

from __future__ import annotations

import logging
from abc import ABCMeta, abstractmethod
from collections.abc import Iterable, Iterator
from contextvars import ContextVar, Token
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from compiler.target.target import Target
from tuner.faces.autotvm.errors import ConfigError
from tuner.faces.autotvm.measure_types import MeasureInput, MeasureResult
from tuner.faces.autotvm.space import Config, FallbackConfigEntity

logger = logging.getLogger("tunefarm.autotvm")

Workload = tuple[Any, ...]
Records = str | bytes | Path | IO[str] | Iterable[tuple[MeasureInput, MeasureResult]]


class _Current(ABCMeta):
    """Gives `DispatchContext.current`: the innermost context of this thread (or task), the fallback outside of any."""

    @property
    def current(cls) -> DispatchContext:
        return _current.get()


class DispatchContext(metaclass=_Current):
    """Answers which config to use. Subclasses implement `_query_inside` and `update`; what they do not know is asked
    of the context around them."""

    def __init__(self) -> None:
        self._around: list[tuple[DispatchContext, Token[DispatchContext]]] = []

    def query(self, target: Target | None, workload: Workload | None) -> Config:
        """The config for a workload on a target."""
        found = self._query_inside(target, workload)
        if found is not None:
            return found
        around = self._around[-1][0] if self._around else _FALLBACK
        return around.query(target, workload)

    def update(self, target: Target | None, workload: Workload, cfg: Config) -> None:
        """Answer with `cfg` from now on. Raises ConfigError where a subclass does not take updates."""
        raise ConfigError(f"{type(self).__name__} cannot be updated", hint="give it an update method")

    @abstractmethod
    def _query_inside(self, target: Target | None, workload: Workload | None) -> Config | None:
        """The config for a workload on a target; None where this context has none."""

    def __enter__(self) -> Self:
        self._around.append((_current.get(), _current.set(self)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        _current.reset(self._around.pop()[1])


class ApplyConfig(DispatchContext):
    """Answers with one config, whatever is asked."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self._config = config
        self.workload: Workload | None = None

    def _query_inside(self, target: Target | None, workload: Workload | None) -> Config:
        self.workload = workload
        return self._config

    def update(self, target: Target | None, workload: Workload, cfg: Config) -> None:
        """Only the workload is noted: the config stays."""
        self.workload = workload


class FallbackContext(DispatchContext):
    """The outermost context: a config of first choices for each workload, said once in the log."""

    def __init__(self) -> None:
        super().__init__()
        self._memory: dict[tuple[str, Workload], Config] = {}
        self.silent = False

    def _query_inside(self, target: Target | None, workload: Workload | None) -> Config:
        key = (str(target), workload or ())
        if key not in self._memory:
            if not self.silent:
                logger.warning("nothing was tuned for %s on %s: using the first choice of every knob", workload, target)
            self._memory[key] = FallbackConfigEntity()
        return self._memory[key]

    def update(self, target: Target | None, workload: Workload, cfg: Config) -> None:
        self._memory[str(target), workload] = cfg

    def clear_cache(self, target: Target | None, workload: Workload) -> None:
        """Forget what is answered for a workload."""
        self._memory.pop((str(target), workload), None)


_FALLBACK = FallbackContext()
_current: ContextVar[DispatchContext] = ContextVar("autotvm_dispatch", default=_FALLBACK)


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
    from tuner.faces.autotvm.record import load_from_file

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
