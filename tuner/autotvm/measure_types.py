"""What is measured and what comes of it, as records and callbacks know it."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple, assert_never

from compiler.target import Target
from rpc_server.measure import FailureKind

if TYPE_CHECKING:
    from tuner.autotvm.space import ConfigEntity
    from tuner.autotvm.task import Task


class MeasureErrorNo(IntEnum):
    """Why a measurement has no time, as the record format numbers it."""

    NO_ERROR = 0
    INSTANTIATION_ERROR = 1
    COMPILE_HOST = 2
    COMPILE_DEVICE = 3
    RUNTIME_DEVICE = 4
    WRONG_ANSWER = 5
    BUILD_TIMEOUT = 6
    RUN_TIMEOUT = 7
    UNKNOWN_ERROR = 8

    @staticmethod
    def of(failure: FailureKind | None) -> MeasureErrorNo:
        """The number of a trial's failure; the format knows fewer kinds than we do."""
        match failure:
            case None:
                return MeasureErrorNo.NO_ERROR
            case FailureKind.INSTANTIATE:
                return MeasureErrorNo.INSTANTIATION_ERROR
            case FailureKind.BUILD:
                return MeasureErrorNo.COMPILE_HOST
            case FailureKind.BUILD_TIMEOUT:
                return MeasureErrorNo.BUILD_TIMEOUT
            case FailureKind.WRONG_RESULT:
                return MeasureErrorNo.WRONG_ANSWER
            case FailureKind.RUN_TIMEOUT:
                return MeasureErrorNo.RUN_TIMEOUT
            case (
                FailureKind.UPLOAD | FailureKind.LAUNCH | FailureKind.CRASH | FailureKind.OUT_OF_MEMORY
                | FailureKind.DEVICE_LOST
            ):  # fmt: skip
                return MeasureErrorNo.RUNTIME_DEVICE
            case _:
                assert_never(failure)


class MeasureInput(NamedTuple):
    """A config of a task, to be measured."""

    target: Target
    task: Task
    config: ConfigEntity


class MeasureResult(NamedTuple):
    """`costs`: seconds per call, one a repeat; of a failed trial the errors' texts. `all_cost`: seconds that building
    and measuring took; `timestamp`: when it was done, in seconds since 1970."""

    costs: tuple[float | str, ...]
    error_no: int
    all_cost: float
    timestamp: float

    @property
    def mean(self) -> float:
        """Mean seconds per call; infinity for a failed trial."""
        times = [c for c in self.costs if not isinstance(c, str)]
        return sum(times) / len(times) if times and self.error_no == 0 else float("inf")
