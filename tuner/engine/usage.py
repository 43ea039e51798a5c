"""How long devices were held and how long they measured, by name, and when anything was done at all.

Pure: times are given.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from tuner.engine.progress import DeviceUse


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

    def held_s(self, now: float) -> float:
        """Seconds that devices were held, all together."""
        return sum(t.held_s for t in self._tallies.values()) + sum(now - since for _, since in self._held.values())

    @property
    def busy_s(self) -> float:
        """Seconds in which devices measured, all together."""
        return sum(t.busy_s for t in self._tallies.values())

    def so_far(self, now: float) -> tuple[DeviceUse, ...]:
        """Every device that was ever held, by name."""
        still: dict[str, float] = defaultdict(float)
        for device, since in self._held.values():
            still[device] += now - since
        names = sorted({*self._tallies, *still})
        tallies = [(name, self._tallies.get(name, _Tally())) for name in names]
        return tuple(DeviceUse(name, t.trials, t.busy_s, t.held_s + still[name]) for name, t in tallies)


_KEPT = 1024


class Activity:
    """The times at which anything was built or measured.

    Told of each piece of work when it has ended, in about that order.
    """

    def __init__(self) -> None:
        self._spans: list[tuple[float, float]] = []  # the last ones, apart from each other, in order
        self._busy_s = 0.0

    def ended(self, now: float, seconds: float) -> None:
        """Something that took so long ended at `now`."""
        start, end = now - seconds, now
        later: list[tuple[float, float]] = []
        while self._spans and self._spans[-1][1] >= start:
            span = self._spans.pop()
            if span[0] > end:
                later.append(span)
                continue
            self._busy_s -= span[1] - span[0]
            start, end = min(start, span[0]), max(end, span[1])
        self._busy_s += end - start
        self._spans += [(start, end), *reversed(later)]
        if len(self._spans) > 2 * _KEPT:
            del self._spans[:_KEPT]

    def overhead(self, elapsed_s: float) -> float:
        """The share of a run of so many seconds in which nothing was built or measured."""
        return min(1.0, max(0.0, 1.0 - self._busy_s / elapsed_s)) if elapsed_s > 0 else 0.0
