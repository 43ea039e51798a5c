"""Where a run's jobs are, and which device slot holds which of them. Pure.

A slot measures one job at a time and may have another at hand. Its device then goes on at once, without waiting for
the engine to record the first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tuner.build.process_builder import CandidateBuild
from tuner.engine.events import Built, Job
from tuner.records.model import TrialPurpose
from tuner.search.base import Proposal

DEPTH = 2
"""Jobs a slot may hold: the one that is measured and the next."""


@dataclass(frozen=True)
class Ready:
    """A job with its build, to be measured."""

    job: Job
    build: CandidateBuild


@dataclass(frozen=True)
class Dropped:
    """The jobs of a slot whose device is gone: the one it was at, and those no device has seen."""

    begun: Ready | None
    waiting: tuple[Ready, ...]


class Slots:
    def __init__(self) -> None:
        self._held: dict[int, deque[Ready]] = {}
        self._cores: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, slot: int | None) -> bool:
        return slot in self._held

    def jobs(self) -> Iterator[Job]:
        return (job for slot in self._held for job in self.held_by(slot))

    def holding(self, count: int) -> list[int]:
        """The slots that hold just so many jobs."""
        return [slot for slot, held in self._held.items() if len(held) == count]

    def held_by(self, slot: int) -> list[Job]:
        """Return what the slot measures, and what it has at hand."""
        return [ready.job for ready in self._held.get(slot, ())]

    def current(self, slot: int) -> Ready | None:
        """Return what the slot measures, or None."""
        held = self._held.get(slot)
        return held[0] if held else None

    def shared_cores(self) -> int:
        """How many cores the slots share with builders.
        0 without slots, or when one of them shares none."""
        return min((self._cores[slot] for slot in self._held), default=0)

    def up(self, slot: int, cores: int = 0) -> None:
        """The slot has a device, which shares so many cores with builders."""
        self._held[slot] = deque()
        self._cores[slot] = cores

    def down(self, slot: int) -> Dropped:
        begun, *waiting = self._held.pop(slot, None) or (None,)
        return Dropped(begun, tuple(w for w in waiting if w is not None))

    def give(self, slot: int, ready: Ready) -> None:
        self._held[slot].append(ready)

    def done(self, slot: int) -> None:
        """The slot is through with what it measured."""
        self._held[slot].popleft()


class Jobs:
    """Where each job of a run is.
    It is asked for (`claiming`, or `taken` by another run), `building`, or failed to build before the baseline was
    known (`early`). Or it is `ready` to be measured, or with one of the `slots`."""

    def __init__(self) -> None:
        self.claiming: dict[int, Job] = {}
        self.taken: dict[int, Job] = {}
        self.building: dict[int, Job] = {}
        self.early: list[Built] = []
        self.ready: deque[Ready] = deque()
        self.slots = Slots()
        self._last = 0

    def new(self, task: int, purpose: TrialPurpose, candidate: Proposal | None) -> Job:
        self._last += 1
        return Job(self._last, task, purpose, candidate)

    def under_way(self) -> Iterator[Job]:
        """Those claimed, built, waiting or measured."""
        yield from self.claiming.values()
        yield from self.building.values()
        yield from (event.job for event in self.early)
        yield from (ready.job for ready in self.ready)
        yield from self.slots.jobs()

    @property
    def to_come(self) -> int:
        """How many will want a slot."""
        return len(self.claiming) + len(self.building) + len(self.ready)

    def put_first(self, ready: Ready) -> None:
        """It goes before all candidates of the search, after others that do."""
        place = next((i for i, r in enumerate(self.ready) if r.job.purpose is TrialPurpose.SEARCH), len(self.ready))
        self.ready.insert(place, ready)

    def lose(self, slot: int) -> Ready | None:
        """Note that a slot's device is gone.
        Jobs that it had not begun wait for another device; the one that it had is returned."""
        dropped = self.slots.down(slot)
        self.ready.extendleft(reversed(dropped.waiting))
        return dropped.begun

    def take(self, fits: Callable[[Ready], bool]) -> Ready | None:
        """The first that is ready and fits."""
        found = next((ready for ready in self.ready if fits(ready)), None)
        if found is not None:
            self.ready.remove(found)
        return found

    def take_early(self, task: int) -> list[Built]:
        """Take out the task's builds that failed early."""
        found = [event for event in self.early if event.job.task == task]
        self.early = [event for event in self.early if event.job.task != task]
        return found

    def withdraw(self, unwanted: Callable[[Job], bool]) -> list[Job]:
        """Take out the ready ones that are unwanted."""
        found = [ready.job for ready in self.ready if unwanted(ready.job)]
        self.ready = deque(ready for ready in self.ready if not unwanted(ready.job))
        return found
