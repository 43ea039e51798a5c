"""How long a run has been without any device."""

from __future__ import annotations

_LONGEST_STEP_S = 1.0


class DeviceWait:
    """Adds up the time without a device, from look to look; a device ends the wait.

    Between two looks at most a second counts: a process that had no processor for longer, or waited for its disk, did
    not look for a device either, and what came meanwhile is still to be heard.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._waited_s = 0.0
        self._looked: float | None = None

    def is_over(self, now: float, found: bool) -> bool:
        """A look at time `now`, seconds. `found`: there is a device, or one will come. True: it has been too long."""
        step = 0.0 if self._looked is None else min(now - self._looked, _LONGEST_STEP_S)
        self._looked = now
        self._waited_s = 0.0 if found else self._waited_s + step
        return self._waited_s > self._limit_s
