"""The tracker's state machine: events in, commands out, no I/O and no clock.

    state = TrackerState(run="a1b2", secret=lambda: token_hex(16))
    for command in state.handle(event, now): ...

An event is a message of a box or a client, as it came, or `Tick`. `now` is seconds on one clock that never
goes back; `next_tick` says when the next `Tick` is due. The rules live in four modules over the data of
`tracker.farm`: `boxes`, `lending`, `requests`, and `allocate` for who goes first.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import assert_never

from rpc_server.wire import tracker_messages as tm
from tracker import boxes, lending, requests, snapshot
from tracker.farm import Farm
from tracker.farm_parts import Command, TimerKind, Timing


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


@dataclass(frozen=True, slots=True)
class RevokedKey:
    """The key of a box's agent or a client is not authorized any more."""

    peer: str
    reason: str


BoxEvent = (
    tm.BoxHello
    | tm.BoxHeartbeat
    | tm.BoxBye
    | tm.LeaseAccepted
    | tm.LeaseDeclined
    | tm.LeaseOver
    | tm.SuspectDevice
    | tm.CheckResult
)
ClientEvent = tm.RequestDevice | tm.CancelRequest | tm.RenewLeases | tm.ReleaseLease | tm.ClientBye | tm.Admin
Event = BoxEvent | ClientEvent | RevokedKey | Tick


class TrackerState:
    """`run` names this run of the tracker and must be new each time. `secret` makes unguessable words."""

    def __init__(
        self, *, run: str, timing: Timing | None = None, secret: Callable[[], str] = lambda: secrets.token_hex(16)
    ) -> None:
        self.farm = Farm(run, timing or Timing(), secret)

    @property
    def unix_offset(self) -> float:
        """Unix time minus the clock of `now`, for the times in the event log."""
        return self.farm.unix_offset

    @unix_offset.setter
    def unix_offset(self, offset: float) -> None:
        self.farm.unix_offset = offset

    def handle(self, event: Event, now: float) -> list[Command]:
        """Take one event in.

        Raises:
            UnknownDeviceError: an `Admin` names no known device or box. Nothing has changed then.
        """
        farm = self.farm
        if farm.started is None:
            farm.started = now
        match event:
            case tm.BoxHeartbeat():
                boxes.heartbeat(farm, event, now)
            case tm.RequestDevice():
                requests.asked(farm, event, now)
            case tm.LeaseAccepted():
                lending.accepted(farm, event, now)
            case tm.ReleaseLease():
                lending.release(farm, event, now)
            case tm.LeaseOver():
                lending.over(farm, event, now)
            case tm.RenewLeases():
                lending.renew(farm, event, now)
            case tm.LeaseDeclined():
                lending.declined(farm, event, now)
            case tm.CancelRequest():
                requests.cancel(farm, event, now)
            case tm.ClientBye():
                requests.client_bye(farm, event, now)
            case tm.BoxHello():
                boxes.hello(farm, event, now)
            case tm.BoxBye():
                boxes.bye(farm, event, now)
            case tm.SuspectDevice():
                boxes.suspect_device(farm, event, now)
            case tm.CheckResult():
                boxes.checked(farm, event, now)
            case tm.Admin():
                boxes.admin(farm, event, now)
            case RevokedKey(peer, reason):
                boxes.revoked(farm, peer, reason, now)
                requests.revoked(farm, peer, reason, now)
            case Tick():
                self._tick(now)
            case _:
                assert_never(event)
        return farm.take()

    def _tick(self, now: float) -> None:
        farm = self.farm
        while (fired := farm.fired(now)) is not None:
            when, kind, name = fired
            match kind:
                case TimerKind.LEASE:
                    lease = farm.leases.get(name)
                    if lease is not None and lease.check_at == when:
                        lending.timer(farm, lease, now)
                case TimerKind.REQUEST:
                    request = farm.requests.get(name)
                    if request is not None and request.check_at == when:
                        requests.timer(farm, request, now)
                case TimerKind.BOX:
                    box = farm.boxes.get(name)
                    if box is not None and box.check_at == when and not box.gone:
                        boxes.timer(farm, box, now)
                case TimerKind.FORGET:
                    box = farm.boxes.get(name)
                    if box is not None and box.check_at == when and box.gone:
                        boxes.forget(farm, box)
                case TimerKind.DEVICE:
                    device = farm.devices.get(name)
                    if device is not None and device.check_at == when and not device.box.gone:
                        boxes.check_timer(farm, device, now)
                case _:
                    assert_never(kind)

    @property
    def next_tick(self) -> float | None:
        """Return when a `Tick` is due, or None while nothing is awaited."""
        return self.farm.next_timer()

    def device_page(self, after: str, limit: int, now: float) -> tm.DevicePage:
        """Up to `limit` devices with ids greater than `after`."""
        return snapshot.device_page(self.farm, after, limit, now)

    def queue_page(self) -> tm.QueuePage:
        """Free devices and pending requests for each key and each expression waited for."""
        return snapshot.queue_page(self.farm)

    def numbers(self, now: float) -> tm.FarmNumbers:
        """Return what was counted since the start."""
        return snapshot.numbers(self.farm, now)

    def find(self, target: str) -> tuple[str, ...]:
        """Ids of the devices that `target`, a device's id or a box's name, stands for.

        Raises:
            UnknownDeviceError: there is none.
        """
        return tuple(device.id for device in boxes.find(self.farm, target))
