"""Measuring states."""

from tunefarm.tracker_runner import WithOwnKeys
from tuner.faces.auto_scheduler import measure_methods as _methods
from tuner.faces.auto_scheduler.measure_callback import MeasureCallback, PythonBasedMeasureCallback
from tuner.faces.auto_scheduler.measure_methods import (
    LocalBuilder,
    LocalRPCMeasureContext,
    LocalRunner,
    ProgramBuilder,
    ProgramMeasurer,
    ProgramRunner,
)
from tuner.faces.auto_scheduler.measure_types import BuildResult, MeasureInput, MeasureResult
from tuner.faces.auto_scheduler.record import recover_measure_input
from tuner.faces.common.measure_error import MeasureErrorNo

__all__ = [
    "BuildResult", "LocalBuilder", "LocalRPCMeasureContext", "LocalRunner", "MeasureCallback", "MeasureErrorNo",
    "MeasureInput", "MeasureResult", "ProgramBuilder", "ProgramMeasurer", "ProgramRunner", "PythonBasedMeasureCallback",
    "RPCRunner", "recover_measure_input",
]  # fmt: skip


class RPCRunner(WithOwnKeys, _methods.RPCRunner):
    __doc__ = _methods.RPCRunner.__doc__
