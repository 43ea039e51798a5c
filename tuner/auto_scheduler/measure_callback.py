"""Whom to tell of results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tuner.auto_scheduler.measure_types import MeasureInput, MeasureResult
    from tuner.auto_scheduler.search_policy import SearchPolicy


class PythonBasedMeasureCallback:
    """Base of the measure callbacks."""

    def callback(
        self, policy: SearchPolicy, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]
    ) -> None:
        """Called with results as they arrive, from the thread that tunes."""
        raise NotImplementedError


MeasureCallback = PythonBasedMeasureCallback
