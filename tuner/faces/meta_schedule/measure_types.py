"""The inputs of builders and runners, and their answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from compiler.ir.module import IRModule
from compiler.target.target import Target
from tuner.errors import TuningError
from tuner.faces.meta_schedule.record import TensorInfo


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


@dataclass(frozen=True)
class RunnerInput:
    """An artifact's file, the kind of device, and the arguments (which the artifact also has)."""

    artifact_path: str
    device_type: str
    args_info: Sequence[TensorInfo] = ()


@dataclass(frozen=True)
class RunnerResult:
    """Seconds of a call, one a repeat, or why there are none.
    `disqualified`: the result was wrong, or the kernel failed in the finals. Earlier times of it must not be served."""

    run_secs: list[float] | None
    error_msg: str | None
    disqualified: bool = False


class RunnerFuture:
    """A result to come: `f_done` says whether it is there, `f_result` waits for it."""

    _result: Callable[[], RunnerResult] | None = None

    def __init__(self, f_done: Callable[[], bool], f_result: Callable[[], RunnerResult] | None = None) -> None:
        self._done, self._result = f_done, f_result

    @staticmethod
    def of(result: RunnerResult) -> RunnerFuture:
        """Return a result that is there already."""
        return RunnerFuture(lambda: True, lambda: result)

    def done(self) -> bool:
        """Whether the result is there."""
        return self._done()

    def result(self) -> RunnerResult:
        """Wait for the result. Raises TuningError for a future that has none."""
        if self._result is None:
            raise TuningError("this future has no result", hint="RunnerFuture(f_done, f_result)")
        return self._result()
