"""Callbacks told of each result."""

from tunefarm.compatibility import refuse_other_names
from tuner.faces.meta_schedule.measure_callback import (
    AddToDatabase,
    MeasureCallback,
    PyMeasureCallback,
    RemoveBuildArtifact,
    UpdateCostModel,
)

__all__ = ["AddToDatabase", "MeasureCallback", "PyMeasureCallback", "RemoveBuildArtifact", "UpdateCostModel"]

refuse_other_names(__name__)
