"""The objective of a run: the seconds of a call, or its joules. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import assert_never

NO_ENERGY = (
    "its device tells no energy, which is what the run makes small: `tunefarm run MODEL --energy` there says why,"
    " --objective time needs none"
)


class Goal(StrEnum):
    """The cost of candidates, within a run: seconds or joules of a call."""

    TIME = "time"
    ENERGY = "energy"

    @property
    def unit(self) -> str:
        """The unit of a cost."""
        return "s" if self is Goal.TIME else "J"

    def costs(
        self, samples: Sequence[float], environment: Mapping[str, float], watts: float | None = None
    ) -> tuple[float, ...] | None:
        """The costs of a measurement's `samples` (seconds a call).
        A device that tells the joules of longer trials only is assumed to draw the same `watts` as before. None if
        energy is unknown."""
        match self:
            case Goal.TIME:
                return tuple(samples)
            case Goal.ENERGY:
                drawn = watts_of(samples, environment) or watts
                return None if drawn is None else tuple(drawn * sample for sample in samples)
            case _:
                assert_never(self)


def watts_of(samples: Sequence[float], environment: Mapping[str, float]) -> float | None:
    """The power that a device drew while it was measured; None where it tells no energy."""
    joules = environment.get("joules", 0.0)
    typical = statistics.median(samples) if samples else 0.0
    return joules / typical if joules > 0 and typical > 0 else None
