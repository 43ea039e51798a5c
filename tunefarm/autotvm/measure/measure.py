"""How configs are measured, and what comes of it."""

from tuner.faces.autotvm.measure_methods import Builder, Runner, create_measure_batch, measure_option
from tuner.faces.autotvm.measure_types import MeasureInput, MeasureResult
from tuner.faces.common.measure_error import MeasureErrorNo

__all__ = [
    "Builder", "MeasureErrorNo", "MeasureInput", "MeasureResult", "Runner", "create_measure_batch", "measure_option",
]  # fmt: skip
