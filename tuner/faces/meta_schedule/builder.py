"""Builders under TVM's names. Candidates are built in the engine's worker processes."""

from __future__ import annotations

import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from compiler.ir.module import IRModule
from compiler.target.target import Target
from tuner.build import process_builder as engine
from tuner.build import worker as worker
from tuner.errors import TuningError, UnknownKindError
from tuner.faces.meta_schedule.record import entry


@dataclass(frozen=True)
class BuilderInput:
    """A scheduled module and what to build it for."""

    mod: IRModule
    target: Target
    params: None = None


@dataclass(frozen=True)
class BuilderResult:
    """The file of an artifact, or why there is none."""

    artifact_path: str | None
    error_msg: str | None


class Builder(ABC):
    """The contract: every input gets its result, in order. A failed build is a result, too."""

    BuilderType: ClassVar[Any] = Any
    """What parameters that take one are annotated with, in programs for TVM."""

    @abstractmethod
    def build(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderResult]:
        """Build all of `build_inputs`."""

    @abstractmethod
    def engine_builder(self) -> engine.Builder:
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

    `f_build`, `f_export` and `initializer` are not supported: the compiler decides how to build, so that a
    candidate's record can be built again.
    """

    def __init__(
        self,
        *,
        max_workers: int | None = None,
        timeout_sec: float = 30.0,
        f_build: None = None,
        f_export: None = None,
        initializer: None = None,
    ) -> None:
        if f_build is not None or f_export is not None or initializer is not None:
            raise TuningError(
                "f_build, f_export and initializer are not supported: a record could not be built again",
                hint="derive a builder from PyBuilder, or tune a kernel of your own (docs/own-kernels.md)",
            )
        self.max_workers = max_workers or len(os.sched_getaffinity(0))
        self._timeout_s = timeout_sec

    @property
    def timeout_s(self) -> float:
        return self._timeout_s

    def engine_builder(self) -> engine.Builder:
        return engine.LocalBuilder(self.max_workers, import_main=False)  # functions and traces: nothing of a script

    def build(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderResult]:
        """Builds them at once; the files are the caller's to remove."""
        workers = self.engine_builder()
        try:
            waiting = [workers.submit(self._request(given)) for given in build_inputs]
            return [_result(future.result()) for future in waiting]
        finally:
            workers.close()

    def _request(self, given: BuilderInput) -> worker.BuildRequest:
        source = worker.FuncSource(worker.pack_func(entry(given.mod)))
        return worker.BuildRequest(source, str(Target(given.target)), "main", self._timeout_s)


def _result(built: worker.BuildResult) -> BuilderResult:
    if built.artifact is None:
        return BuilderResult(None, f"{built.failure}: {built.text}")
    folder = tempfile.mkdtemp(prefix="tunefarm-build-")
    path = Path(folder, "main.tfa")
    path.write_bytes(built.artifact)
    return BuilderResult(str(path), None)
