"""Callbacks that get results."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tuner.faces.auto_scheduler.measure_types import MeasureInput, MeasureResult
    from tuner.faces.auto_scheduler.search_policy import SearchPolicy


class PythonBasedMeasureCallback(ABC):
    """Base of the measure callbacks."""

    @abstractmethod
    def callback(self, policy: SearchPolicy, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Called with results as they arrive, from the thread that tunes."""


MeasureCallback = PythonBasedMeasureCallback
