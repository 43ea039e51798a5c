"""Builders under TVM's names. Candidates are built in the engine's worker processes."""

from __future__ import annotations

import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

from compiler.target.target import Target
from tuner.build import process_builder as engine
from tuner.build import worker as worker
from tuner.errors import UnknownKindError
from tuner.faces.meta_schedule.hooks import build_with, named
from tuner.faces.meta_schedule.measure_types import BuilderInput, BuilderResult
from tuner.faces.meta_schedule.own_engine import OwnBuilds
from tuner.faces.meta_schedule.record import entry


class Builder(ABC):
    """The contract: every input gets its result, in order. A failed build is a result, too."""

    BuilderType: ClassVar[Any] = Any
    """What parameters that take one are annotated with, in programs for TVM."""

    @abstractmethod
    def build(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderResult]:
        """Build all of `build_inputs`."""

    @abstractmethod
    def engine_builder(self) -> engine.CandidateBuilder:
        """A builder for the engine, for the caller to close."""

    @property
    @abstractmethod
    def timeout_s(self) -> float:
        """Seconds one build may take."""

    @staticmethod
    def create(kind: Literal["local"] = "local", **kwargs: Any) -> Builder:
        """The builder called `kind`. Raises TuningError for another name."""
        if kind != "local":
            raise UnknownKindError(f"no builder {kind!r}", hint='there is "local"')
        return LocalBuilder(**kwargs)


class LocalBuilder(Builder):
    """Worker processes on this machine, `max_workers` of them (default: as many as cores).

    `f_build(mod, target, params)` builds a module instead, and `f_export(module)` writes it and returns the file's
    path; `initializer()` runs before. These are functions, or names of registered ones, and run in a process that
    is forked for the candidate. Without `f_export` the file is an artifact.
    """

    def __init__(
        self, *, max_workers: int | None = None, timeout_sec: float = 30.0,
        f_build: Callable[..., Any] | str | None = None, f_export: Callable[..., Any] | str | None = None,
        initializer: Callable[[], Any] | None = None,
    ) -> None:  # fmt: skip
        self.max_workers = max_workers or len(os.sched_getaffinity(0))
        self._timeout_s = timeout_sec
        self.f_build, self.f_export, self.initializer = f_build, f_export, initializer
        for hook in (f_build, f_export):
            named(hook)

    @property
    def timeout_s(self) -> float:
        return self._timeout_s

    @property
    def _has_hooks(self) -> bool:
        return not (self.f_build is None and self.f_export is None and self.initializer is None)

    def engine_builder(self) -> engine.CandidateBuilder:
        if self._has_hooks:
            return OwnBuilds(self.build)
        return engine.ProcessBuilder(self.max_workers, import_main=False)  # functions and traces: nothing of a script

    def build(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderResult]:
        """Builds them at once; the files are the caller's to remove."""
        if self._has_hooks:
            hooks = self.f_build, self.f_export, self.initializer
            return [build_with(*hooks, given, self._timeout_s) for given in build_inputs]
        workers = self.engine_builder()
        try:
            waiting = [workers.submit(self._request(given)) for given in build_inputs]
            return [_result(future.result()) for future in waiting]
        finally:
            workers.close()

    def _request(self, given: BuilderInput) -> worker.BuildRequest:
        source = worker.FuncSource(worker.pack_func(entry(given.mod)))
        return worker.BuildRequest(source, str(Target(given.target)), "main", self._timeout_s)


def _result(built: worker.CandidateBuild) -> BuilderResult:
    if built.artifact is None:
        return BuilderResult(None, f"{built.failure}: {built.text}")
    folder = tempfile.mkdtemp(prefix="tunefarm-build-")
    path = Path(folder, "main.tfa")
    path.write_bytes(built.artifact)
    return BuilderResult(str(path), None)
