"""How long devices were held and how long they measured, by name. Pure: times are given."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from tuner.progress import DeviceUse


@dataclass
class _Tally:
    trials: int = 0
    busy_s: float = 0.0
    held_s: float = 0.0


class Usage:
    """Told what happens to a run's slots; says what that comes to."""

    def __init__(self) -> None:
        self._tallies: dict[str, _Tally] = defaultdict(_Tally)
        self._held: dict[int, tuple[str, float]] = {}

    def opened(self, slot: int, device: str, now: float) -> None:
        self.closed(slot, now)
        self._held[slot] = (device, now)

    def closed(self, slot: int, now: float) -> None:
        if slot in self._held:
            device, since = self._held.pop(slot)
            self._tallies[device].held_s += now - since

    def measured(self, slot: int, seconds: float) -> None:
        if slot in self._held:
            tally = self._tallies[self._held[slot][0]]
            tally.trials += 1
            tally.busy_s += seconds

    def so_far(self, now: float) -> tuple[DeviceUse, ...]:
        """Every device that was ever held, by name."""
        still: dict[str, float] = defaultdict(float)
        for device, since in self._held.values():
            still[device] += now - since
        names = sorted({*self._tallies, *still})
        tallies = [(name, self._tallies.get(name, _Tally())) for name in names]
        return tuple(DeviceUse(name, t.trials, t.busy_s, t.held_s + still[name]) for name, t in tallies)
