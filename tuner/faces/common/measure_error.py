"""Why a measurement has no time, as TVM's record formats number it."""

from __future__ import annotations

from enum import IntEnum
from typing import assert_never

from rpc_server.wire.trial_messages import FailureKind


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
