"""Callbacks told of each result."""

from tuner.faces.meta_schedule.measure_callback import AddToDatabase, MeasureCallback, PyMeasureCallback

__all__ = ["AddToDatabase", "MeasureCallback", "PyMeasureCallback"]
