"""Find the config with which a template is built: contexts are asked, the innermost first."""

from __future__ import annotations

import logging
from abc import abstractmethod
from contextvars import ContextVar
from typing import Any

from compiler.target.target import Target
from tuner.faces.autotvm.errors import ConfigError
from tuner.faces.autotvm.space import Config, FallbackConfigEntity
from tuner.faces.common.dispatch import NestedContext

logger = logging.getLogger("tunefarm.autotvm")

Workload = tuple[Any, ...]


class AutotvmGlobalScope:
    """Settings of all templates: `silent` says nothing in the log, `in_tuning` is noted only."""

    def __init__(self) -> None:
        self.silent = False
        self.in_tuning = False


GLOBAL_SCOPE = AutotvmGlobalScope()


class DispatchContext(NestedContext):
    """Answers which config to use.

    Subclasses implement `_query_inside` and `update`. A workload that they do not know is asked of the context
    around them. `DispatchContext.current` is the innermost context, the fallback outside of any.
    """

    def query(self, target: Target | None, workload: Workload | None) -> Config:
        """The config for a workload on a target."""
        found = self._query_inside(target, workload)
        if found is not None:
            return found
        return (self.around or _FALLBACK).query(target, workload)

    def update(self, target: Target | None, workload: Workload, cfg: Config) -> None:
        """Answer with `cfg` from now on. Raises ConfigError where a subclass does not take updates."""
        raise ConfigError(f"{type(self).__name__} cannot be updated", hint="give it an update method")

    @abstractmethod
    def _query_inside(self, target: Target | None, workload: Workload | None) -> Config | None:
        """The config for a workload on a target; None if this context has none."""


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
        self.memory: dict[tuple[str, Workload], Config] = {}
        """What was answered, by target and workload."""
        self.silent = False

    def _query_inside(self, target: Target | None, workload: Workload | None) -> Config:
        key = (str(target), workload or ())
        if key not in self.memory:
            if not self.silent and not GLOBAL_SCOPE.silent:
                logger.warning("nothing was tuned for %s on %s: using the first choice of every knob", workload, target)
            self.memory[key] = FallbackConfigEntity()
        return self.memory[key]

    def update(self, target: Target | None, workload: Workload, cfg: Config) -> None:
        self.memory[str(target), workload] = cfg

    def clear_cache(self, target: Target | None, workload: Workload) -> None:
        """Forget what is answered for a workload."""
        self.memory.pop((str(target), workload), None)


_FALLBACK = FallbackContext()
DispatchContext.innermost = ContextVar("autotvm_dispatch", default=_FALLBACK)
