"""The protocol of a box's agent with the tracker, without I/O.

The agent dials out and registers until it is welcome, then sends heartbeats. It never loses a lease because the
tracker or the connection did: it reports its leases when it registers again. One lease holds a slot at a time, and
its number only grows. An offer with an old number is declined. A newer one waits until the older has ended here.

Times are this process's monotonic seconds.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never

from rpc_server.farm_link.leases import LeaseReport
from rpc_server.machine.health import Health
from rpc_server.wire import tracker_messages as tm
from rpc_server.wire.tracker_records import DeviceSpec, HeldLease, Scores

ALLOW_S = 10 * 86400.0
"""A token is let in for this long at most, and then anew while its lease lasts: the loop that watches the
expiry counts milliseconds in 32 bits."""

_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 2.0
_SILENT_S = 5.0  # without an answer, after which the box's log says so


@dataclass(frozen=True, slots=True)
class SendToTracker:
    """Send this to the tracker."""

    message: tm.FromBox


@dataclass(frozen=True, slots=True)
class Allow:
    """Let the token in until `expires`, from the key `holder` if that is given."""

    lease: str
    token: str
    expires: float
    holder: str = ""


@dataclass(frozen=True, slots=True)
class Forbid:
    """Let the lease's token in no more and end its session."""

    lease: str
    reason: str


@dataclass(frozen=True, slots=True)
class RunCheck:
    """Run the health check of a slot and call `check_done`."""

    slot: int
    baseline: Scores | None = None


@dataclass(frozen=True, slots=True)
class Note:
    """Something for the box's log."""

    level: int
    text: str


Action = SendToTracker | Allow | Forbid | RunCheck | Note


@dataclass(slots=True, eq=False)
class _Held:
    """`ends`: the lease's time limit. `allowed`: until when the box lets the token in."""

    grant: tm.GrantLease
    ends: float
    allowed: float = 0.0
    sessions: int = 0
    ending: str = ""
    next: tm.GrantLease | None = None


@dataclass(slots=True, eq=False)
class RegistrarCore:
    """`peer` is a random name nobody else knows; see `BoxHello` for the rest."""

    peer: str
    box: str
    address: str
    devices: Sequence[DeviceSpec]
    tracker: str = "the tracker"
    registered: bool = False
    refusal: str = ""
    closed: str = ""
    _specs: dict[int, DeviceSpec] = field(default_factory=dict)
    _held: dict[str, _Held] = field(default_factory=dict)
    _slots: dict[int, str] = field(default_factory=dict)
    _checks: dict[int, tuple[float, Health]] = field(default_factory=dict)
    _high: int = 0
    _heartbeat_s: float = 1.0
    _pause_s: float = _FIRST_PAUSE_S
    _due: float = 0.0
    _asked: float | None = None  # since when no hello was answered
    _warned: bool = False
    _out: list[Action] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._specs = {spec.slot: spec for spec in self.devices}

    @property
    def is_ending(self) -> bool:
        """Whether a session's end is awaited, so that `closed` reports should be taken in quickly."""
        return any(held.ending for held in self._held.values())

    def handle(self, message: tm.ToBox, now: float) -> list[Action]:
        """Take in what the tracker said."""
        match message:
            case tm.GrantLease():
                self._granted(message, now)
            case tm.RevokeLease(lease, reason):
                self._revoked(lease, reason, now)
            case tm.BoxWelcome():
                self._welcome(message, now)
            case tm.BoxRefused():
                self._refused(message)
            case tm.RegisterAgain():
                self.registered = False
                self._hello(now)
            case tm.CheckDevice(slot, baseline):
                if slot in self._specs:
                    self._out.append(RunCheck(slot, baseline))
            case tm.KeepStanding(slot, standing, reason, by_admin):
                if slot in self._specs:
                    kept = replace(self._specs[slot], standing=standing, reason=reason, by_admin=by_admin)
                    self._specs[slot] = kept
                    about = f"{standing} ({reason})" if reason else standing
                    self._out.append(Note(logging.INFO, f"{self.tracker} says slot {slot} is {about}"))
            case _:
                assert_never(message)
        return self._take()

    def tick(self, now: float) -> list[Action]:
        """Say what is due: a heartbeat, or hello while not registered. End leases past their time limit."""
        for held in list(self._held.values()):
            if now >= held.ends and not held.ending:
                self._begin_end(held, "its time limit is reached", now)
            elif held.allowed < min(held.ends, now + ALLOW_S / 2) and not held.ending:
                self._allow(held, now)
        if now >= self._due:
            if self.registered:
                self._out.append(SendToTracker(tm.BoxHeartbeat(self.peer, tuple(self._held), self.closed)))
                self._due = now + self._heartbeat_s
            else:
                self._hello(now)
        return self._take()

    def next_tick(self) -> float:
        return min([self._due, *(held.ends for held in self._held.values() if not held.ending)])

    def cut_off(self, now: float) -> None:
        """A message could not be sent: the connection is gone. Hello follows, again and again."""
        if self.registered:
            self.registered = False
            self._pause_s = _FIRST_PAUSE_S
            self._due = now

    def session(self, report: LeaseReport, now: float) -> list[Action]:
        """A session under a lease opened or closed."""
        held = self._held.get(report.lease_id)
        if held is not None:
            held.sessions += 1 if report.event == "opened" else -1
            if held.ending and held.sessions <= 0:
                self._over(held, now)
        return self._take()

    def checked_at_start(self, slot: int, health: Health, now: float) -> None:
        """A check that ended before the box registers: one that failed keeps the device from being lent."""
        self._checks[slot] = (now, health)
        if not health.passed:
            self._specs[slot] = replace(self._specs[slot], standing="suspect", reason=health.text[:2000])

    def check_done(self, slot: int, health: Health, now: float) -> list[Action]:
        """A health check ended."""
        self._checks[slot] = (now, health)
        self._tell_check(slot, health)
        return self._take()

    def _tell_check(self, slot: int, health: Health, age_s: float | None = None) -> None:
        text = health.text[:2000]
        result = tm.CheckResult(
            self.peer, slot, health.passed, text, health.slow, health.scores, health.baseline, age_s
        )
        self._out.append(SendToTracker(result))

    def suspect(self, slot: int, reason: str) -> list[Action]:
        """The box doubts a device: ask that it be lent no more until a check passes."""
        self._out.append(SendToTracker(tm.SuspectDevice(self.peer, slot, reason[:2000])))
        return self._take()

    def at_hours(self, closed: str, end_leases: bool, now: float) -> list[Action]:
        """Note the box's hours: `closed` as in BoxHeartbeat. At closing time, leases end or may go on."""
        if closed and not self.closed and end_leases:
            for held in [held for held in self._held.values() if not held.ending]:
                self._begin_end(held, f"its box closes: {closed}", now)
        if bool(closed) != bool(self.closed):
            self._due = min(self._due, now)
        self.closed = closed
        return self._take()

    def stop(self, reason: str) -> list[Action]:
        """The box shuts down."""
        for held in self._held.values():
            self._out.append(Forbid(held.grant.lease, reason))
        self._held.clear()
        self._slots.clear()
        self._out.append(SendToTracker(tm.BoxBye(self.peer, reason[:2000])))
        self.registered = False
        return self._take()

    # Registration

    def _hello(self, now: float) -> None:
        leases = tuple(
            HeldLease(
                lease=held.grant.lease,
                slot=held.grant.slot,
                token=held.grant.token,
                user=held.grant.user,
                client=held.grant.client,
                left_s=None if held.grant.left_s is None else max(0.0, held.ends - now),
            )
            for held in self._held.values()
        )
        devices = tuple(self._specs.values())
        hello = tm.BoxHello(self.peer, self.box, self.address, devices, leases, self._high, closed=self.closed)
        if self._asked is None:
            self._asked = now
        if not self._warned and now - self._asked >= _SILENT_S:
            self._warned = True
            self._out.append(Note(logging.WARNING, f"{self.tracker} does not answer; this box goes on asking"))
        self._out.append(SendToTracker(hello))
        self._due = now + self._pause_s
        self._pause_s = min(self._pause_s * 1.6, _LONGEST_PAUSE_S)

    def _welcome(self, message: tm.BoxWelcome, now: float) -> None:
        is_news = not self.registered
        self.registered = True
        self.refusal = ""
        self._heartbeat_s = message.heartbeat_s
        if is_news:
            level = logging.WARNING if self._warned else logging.INFO
            self._out.append(Note(level, f"registered with {self.tracker} as {self.box}"))
            self._asked, self._warned = None, False
            for slot, (checked, health) in self._checks.items():
                self._tell_check(slot, health, max(0.0, now - checked))
        self._pause_s = _FIRST_PAUSE_S
        self._due = now

    def _refused(self, message: tm.BoxRefused) -> None:
        text = f"{message.message}; {message.hint}" if message.hint else message.message
        if text != self.refusal:
            self._out.append(Note(logging.ERROR, f"{self.tracker} does not take this box: {text}"))
        self.refusal = text
        self._asked = None
        self.registered = False
        self._pause_s = _LONGEST_PAUSE_S

    # Leases

    def _granted(self, grant: tm.GrantLease, now: float) -> None:
        known = self._held.get(grant.lease)
        if known is not None and not known.ending:
            self._out.append(SendToTracker(tm.LeaseAccepted(self.peer, grant.lease)))
            return
        if any(held.next is not None and held.next.lease == grant.lease for held in self._held.values()):
            return
        if grant.slot not in self._specs:
            self._out.append(SendToTracker(tm.LeaseDeclined(self.peer, grant.lease, f"there is no slot {grant.slot}")))
            return
        if grant.number <= self._high:
            reason = f"token number {grant.number} is not newer than {self._high}"
            self._out.append(SendToTracker(tm.LeaseDeclined(self.peer, grant.lease, reason)))
            return
        self._high = grant.number
        older = self._slots.get(grant.slot)
        if older is None:
            self._take_on(grant, now)
            return
        held = self._held[older]
        held.next = grant
        if not held.ending:
            self._begin_end(held, "the tracker lent the device to another", now)

    def _take_on(self, grant: tm.GrantLease, now: float) -> None:
        held = _Held(grant, math.inf if grant.left_s is None else now + grant.left_s)
        self._held[grant.lease] = held
        self._slots[grant.slot] = grant.lease
        self._allow(held, now)
        self._out.append(SendToTracker(tm.LeaseAccepted(self.peer, grant.lease)))

    def _allow(self, held: _Held, now: float) -> None:
        held.allowed = min(held.ends, now + ALLOW_S)
        self._out.append(Allow(held.grant.lease, held.grant.token, held.allowed, held.grant.holder))

    def _revoked(self, lease: str, reason: str, now: float) -> None:
        held = self._held.get(lease)
        if held is not None:
            if not held.ending:
                self._begin_end(held, reason, now)
            return
        for other in self._held.values():
            if other.next is not None and other.next.lease == lease:
                other.next = None
        self._out.append(SendToTracker(tm.LeaseOver(self.peer, lease, "it is not held here")))

    def _begin_end(self, held: _Held, reason: str, now: float) -> None:
        held.ending = reason or "revoked"
        self._out.append(Forbid(held.grant.lease, held.ending))
        if held.sessions <= 0:
            self._over(held, now)

    def _over(self, held: _Held, now: float) -> None:
        del self._held[held.grant.lease]
        del self._slots[held.grant.slot]
        self._out.append(SendToTracker(tm.LeaseOver(self.peer, held.grant.lease, held.ending[:2000])))
        if held.next is not None:
            self._take_on(held.next, now)

    def _take(self) -> list[Action]:
        out, self._out = self._out, []
        return out
