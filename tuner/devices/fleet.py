"""Where measurements happen.

Devices leased from a tracker, named servers, or a private server on this machine.

A `Fleet` opens device sessions. A `Slot` is a thread that holds one session, measures what it is given, and comes
back for another session when its device goes away.
"""

from __future__ import annotations

import queue
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from compiler.artifact import Artifact
from compiler.errors import TunefarmError
from rpc_server.errors import ConnectError, LeaseRefused, RPCError, SessionClosed
from rpc_server.machine.fingerprint import Fingerprint
from rpc_server.wire.trial_messages import FailureKind, MeasureRequest, MeasureResult

_LONGEST_STEP_S = 1.0


@dataclass(frozen=True)
class NamedDevice:
    """A device as records know it: its name on the farm, the key it is asked for by, and what it is."""

    name: str
    key: str
    fingerprint: Fingerprint


class DeviceSession(Protocol):
    """One leased device."""

    def device(self) -> NamedDevice:
        """Which device it is."""

    def measure(self, request: MeasureRequest, artifacts: Sequence[Artifact]) -> MeasureResult:
        """Run one trial. Raises an RPCError only when the device is gone."""

    def close(self) -> None:
        """Give the device back."""


class Fleet(Protocol):
    """A supply of devices."""

    def label(self) -> str:
        """Return a description of the fleet, for messages and records."""

    def target(self) -> str:
        """The canonical target to build for: the first device's. Raises TunefarmError when there is none."""

    def count(self) -> int:
        """How many devices match the request now (at least 1 while it makes sense to wait for one)."""

    def open(self, slot: int, wait_s: float) -> DeviceSession:
        """A session on a device of the fleet. Raises RPCError when none was free within `wait_s`."""

    def close(self) -> None:
        """Stop what the fleet itself started."""


@runtime_checkable
class Queueing(Protocol):
    """A fleet whose devices are shared with others, so a slot may have to wait for one.
    A slot whose `open` got none in time keeps its place in the queue until it opens again or leaves."""

    def waiting(self) -> str:
        """The place of its requests in the queue, in words; "" when it waits for none."""

    def has_turn_coming(self) -> bool:
        """Whether there are devices for a request that waits: others have them now."""

    def leave(self, slot: int) -> None:
        """The slot wants no device any more."""


@runtime_checkable
class SharedSession(Protocol):
    """A session on a device that others wait for, too."""

    @property
    def is_wanted(self) -> Callable[[], bool]:
        """Whether others should have a turn with it now."""


@dataclass(frozen=True)
class DeviceWork:
    """A measurement for a slot, on device number `device` of its devices.
    If that device is gone by then, the slot drops the work."""

    ticket: int
    request: MeasureRequest
    artifacts: tuple[Artifact, ...]
    device: int


@dataclass(frozen=True)
class Opened:
    """The slot holds a device, its `number`th."""

    slot: int
    device: NamedDevice
    number: int


@dataclass(frozen=True)
class Finished:
    slot: int
    ticket: int
    result: MeasureResult


@dataclass(frozen=True)
class Lost:
    """The slot's device is gone (or never came).
    `waiting`: it tries for another. `gave_way`: it is another run's turn. `in_vain`: no waiting brings it back,
    because a tracker lends it and no other may be used."""

    slot: int
    reason: str
    gave_way: bool = False
    in_vain: bool = False


SlotNews = Opened | Finished | Lost

_OPEN_WAIT_S = 2.0
_RETRY_PAUSE_S = 0.5
_DEVICE_GONE = (ConnectError, SessionClosed, LeaseRefused)


class Slot(threading.Thread):
    """Holds one device session at a time; talks to its owner only through `news` and `give`."""

    def __init__(self, number: int, fleet: Fleet, news: Callable[[SlotNews], None]) -> None:
        super().__init__(name=f"slot-{number}", daemon=True)
        self.number = number
        self._fleet = fleet
        self._news = news
        self._work: queue.SimpleQueue[DeviceWork | None] = queue.SimpleQueue()
        self._devices = 0
        self._stopping = threading.Event()

    def give(self, work: DeviceWork) -> None:
        self._work.put(work)

    def stop(self) -> None:
        self._stopping.set()
        self._work.put(None)

    def run(self) -> None:
        try:
            self._hold_sessions()
        finally:
            if isinstance(self._fleet, Queueing):
                self._fleet.leave(self.number)

    def _hold_sessions(self) -> None:
        last = ""
        while not self._stopping.is_set():
            try:
                session = self._fleet.open(self.number, _OPEN_WAIT_S)
            except TunefarmError as error:
                if error.kind != last:  # say a reason once, not twice a second
                    last = error.kind
                    in_vain = isinstance(error, LeaseRefused) and not isinstance(self._fleet, Queueing)
                    self._news(Lost(self.number, error.message, in_vain=in_vain))
                self._stopping.wait(_RETRY_PAUSE_S)
                continue
            except Exception:  # a defect must not end the slot either: another box may answer
                self._news(Lost(self.number, traceback.format_exc(limit=-6)))
                self._stopping.wait(_RETRY_PAUSE_S)
                continue
            last = ""
            self._serve(session)

    def _next(self, session: DeviceSession) -> DeviceWork | None:
        """Return what to measure next.
        None when the slot is to end, or when others should have a turn with the device."""
        while True:
            if isinstance(session, SharedSession) and session.is_wanted():
                self._news(Lost(self.number, "another run has its turn", gave_way=True))
                return None
            try:
                return self._work.get(timeout=_LONGEST_STEP_S)
            except queue.Empty:
                continue

    def _serve(self, session: DeviceSession) -> None:
        try:
            self._devices += 1
            self._news(Opened(self.number, session.device(), self._devices))
            while (work := self._next(session)) is not None:
                if work.device != self._devices:
                    continue
                result = session.measure(work.request, work.artifacts)
                self._news(Finished(self.number, work.ticket, result))
                if result.failure is FailureKind.DEVICE_LOST:
                    break
        except _DEVICE_GONE as error:
            self._news(Lost(self.number, error.message))
        except RPCError as error:
            self._news(Lost(self.number, f"{error.kind}: {error.message}"))
        except Exception:  # a defect must not leave the run waiting for this slot
            self._news(Lost(self.number, traceback.format_exc(limit=-6)))
        finally:
            try:
                session.close()
            except RPCError as error:
                self._news(Lost(self.number, f"closing the session: {error.message}"))


class DeviceWait:
    """Adds up how long a run has been without any device, from look to look; a device ends the wait.

    At most a second counts between two looks. A process that had no processor for longer, or waited for its disk,
    did not look for a device either, and news of one may still be unread.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._waited_s = 0.0
        self._looked: float | None = None

    def is_over(self, now: float, found: bool) -> bool:
        """Look at time `now`, in seconds.
        `found`: there is a device, or one will come. True: it has been too long."""
        step = 0.0 if self._looked is None else min(now - self._looked, _LONGEST_STEP_S)
        self._looked = now
        self._waited_s = 0.0 if found else self._waited_s + step
        return self._waited_s > self._limit_s
