"""Measuring configs."""

from tunefarm.autotvm.measure import measure, measure_methods
from tunefarm.autotvm.measure.measure_methods import RPCRunner, request_remote
from tunefarm.compatibility import refuse_other_names
from tuner.faces.autotvm.measure_methods import (
    Builder,
    LocalBuilder,
    LocalRunner,
    Runner,
    create_measure_batch,
    measure_option,
)
from tuner.faces.autotvm.measure_types import MeasureInput, MeasureResult
from tuner.faces.autotvm.module_loading import default_module_loader
from tuner.faces.common.measure_error import MeasureErrorNo

__all__ = [
    "Builder", "LocalBuilder", "LocalRunner", "MeasureErrorNo", "MeasureInput", "MeasureResult", "RPCRunner", "Runner",
    "create_measure_batch", "default_module_loader", "measure", "measure_methods", "measure_option", "request_remote",
]  # fmt: skip

refuse_other_names(__name__)
