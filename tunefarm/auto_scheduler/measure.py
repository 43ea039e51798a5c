"""Measuring states."""

from tuner.auto_scheduler.measure_callback import MeasureCallback, PythonBasedMeasureCallback
from tuner.auto_scheduler.measure_methods import LocalBuilder, LocalRPCMeasureContext, LocalRunner, RPCRunner
from tuner.auto_scheduler.measure_types import MeasureInput, MeasureResult
from tuner.measure_error import MeasureErrorNo

__all__ = [
    "LocalBuilder",
    "LocalRPCMeasureContext",
    "LocalRunner",
    "MeasureCallback",
    "MeasureErrorNo",
    "MeasureInput",
    "MeasureResult",
    "PythonBasedMeasureCallback",
    "RPCRunner",
]  # fmt: skip
