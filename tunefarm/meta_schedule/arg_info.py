"""Arguments of tuned functions."""

from tuner.faces.meta_schedule.record import ArgInfo, TensorInfo

__all__ = ["ArgInfo", "TensorInfo"]
