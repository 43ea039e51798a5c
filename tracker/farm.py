"""The tracker's data: what it knows of its farm (`farm_parts`), and the few moves that its rules use.

Nothing here decides anything and nothing does I/O. `emit` and `log` collect what is to be sent and recorded.
"""

from __future__ import annotations

import heapq
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any

from rpc_server.wire.tracker_messages import KeepStanding, Refused, ToBox, ToClient
from rpc_server.wire.tracker_records import DeviceSpec, LogEvent, Standing
from tracker.allocate import Allocator, Place
from tracker.capability import Capabilities, Predicate
from tracker.farm_parts import (
    Box,
    ClientHoldings,
    Command,
    FarmDevice,
    GrantedLease,
    OutOfService,
    Record,
    Request,
    Send,
    TimerKind,
    Timing,
)
from tracker.log import LogKind

_ENDED_KEPT = 65_536
"""Ids of ended leases remembered, so that a box that missed the end of one is told again."""

_EXPRESSIONS_KEPT = 100
"""Expressions whose grants are counted one by one."""

_OUT_OF_SERVICE_KEPT = 65_536
"""Holders of devices that are out of service, remembered after the device is forgotten."""

_ANSWERED_KEPT = 4096
"""Requests remembered after they were refused or cancelled: a client's next beat may name them once more."""


class Farm:
    """Everything the tracker knows."""

    def __init__(self, run: str, timing: Timing, secret: Callable[[], str]) -> None:
        self.run = run
        self.timing = timing
        self.secret = secret
        self.allocator = Allocator(timing.overdue_s)
        self.boxes: dict[str, Box] = {}
        self.peers: dict[str, Box] = {}
        self.devices: dict[str, FarmDevice] = {}
        self.leases: dict[str, GrantedLease] = {}
        self.requests: dict[str, Request] = {}
        self.clients: dict[str, ClientHoldings] = {}
        self.ended: OrderedDict[str, None] = OrderedDict()
        self.answered: OrderedDict[str, Refused | None] = OrderedDict()
        self.out_of_service: OrderedDict[str, dict[str, OutOfService]] = OrderedDict()
        self.closed: dict[str, Box] = {}
        self.counts: Counter[LogKind] = Counter()
        self.granted: OrderedDict[str, tuple[int, float]] = OrderedDict()
        self.waiting_of: Counter[str] = Counter()
        self.places: dict[Predicate, tuple[float, dict[str, Place]]] = {}
        self.coming: Counter[str] = Counter()  # leases of clients and users to come, or to go: see `sharing`
        self.promised: Counter[str] = Counter()
        self.accounts: dict[
            str, float
        ] = {}  # device seconds of users since devices became scarce, as of `accounted_at`
        self.accounted_at = float("-inf")
        self.number = 0
        self.order = 0
        self.mean_hold_s: float | None = None
        self.started: float | None = None
        self.unix_offset = 0.0
        self._seq = 0
        self._timers: list[tuple[float, int, TimerKind, str]] = []
        self._timer_seq = 0
        self._out: list[Command] = []

    # What goes out

    def emit(self, peer: str, message: ToBox | ToClient) -> None:
        self._out.append(Send(peer, message))

    def log_box(self, kind: LogKind, now: float, box: Box, text: str = "", device: str = "") -> None:
        self._log(kind, now, box=box.name, device=device, text=text)

    def log_request(self, kind: LogKind, now: float, request: str, user: str, text: str = "") -> None:
        self._log(kind, now, request=request, user=user, text=text)

    def log_lease(self, kind: LogKind, now: float, lease: GrantedLease, text: str = "") -> None:
        self._log(
            kind, now, device=lease.device.id, box=lease.device.box.name, lease=lease.id,
            request=lease.request.id if lease.request else "", user=lease.user, number=lease.number, text=text,
        )  # fmt: skip

    def _log(self, kind: LogKind, now: float, **what: Any) -> None:
        self.counts[kind] += 1
        self._seq += 1
        self._out.append(Record(LogEvent(seq=self._seq, time=self.unix_offset + now, kind=kind, **what)))

    def count_grant(self, expr: str, waited_s: float) -> None:
        """A request for this expression was granted after waiting so long."""
        grants, seconds = self.granted.pop(expr, (0, 0.0))
        self.granted[expr] = (grants + 1, seconds + waited_s)
        if len(self.granted) > _EXPRESSIONS_KEPT:
            self.granted.popitem(last=False)

    def take(self) -> list[Command]:
        """The commands collected since the last call."""
        out, self._out = self._out, []
        return out

    # Timers

    def arm(self, when: float, kind: TimerKind, name: str) -> float:
        """Have `fired` return (when, kind, name) at that time.
        Things that can be armed again keep `when` as `check_at`; an entry with another time is void. Returns `when`."""
        self._timer_seq += 1
        heapq.heappush(self._timers, (when, self._timer_seq, kind, name))
        return when

    def fired(self, now: float) -> tuple[float, TimerKind, str] | None:
        """The next timer that is due, taken out of the heap."""
        if not self._timers or self._timers[0][0] > now:
            return None
        when, _, kind, name = heapq.heappop(self._timers)
        return when, kind, name

    def next_timer(self) -> float | None:
        return self._timers[0][0] if self._timers else None

    # Devices

    def add_device(self, box: Box, spec: DeviceSpec, now: float) -> FarmDevice:
        device_id = f"{box.name}/{spec.slot}"
        device = FarmDevice(device_id, box, spec, now)
        self.devices[device_id] = device
        box.devices[spec.slot] = device
        return device

    def describe(self, device: FarmDevice) -> None:
        """Tell the allocator what a device has, after its spec changed."""
        spec = device.spec
        self.allocator.add_device(device.id, Capabilities.of(spec.key, spec.tags, spec.attributes))

    def drop_device(self, device: FarmDevice) -> None:
        self.allocator.remove_device(device.id)
        self.devices.pop(device.id, None)
        device.box.devices.pop(device.spec.slot, None)

    def set_standing(
        self, device: FarmDevice, standing: Standing, reason: str, now: float, by_admin: bool = False
    ) -> None:
        """Change a device's standing, tell its box to remember it, and log it. `settle` must follow."""
        if (device.standing, device.reason, device.by_admin) == (standing, reason, by_admin):
            return
        device.standing, device.reason, device.by_admin = standing, reason, by_admin
        self.remember_standing(device)
        if not device.box.gone:
            self.emit(device.box.peer, KeepStanding(device.spec.slot, standing, reason, by_admin))
        text = f"{standing}: {reason}" if reason else standing
        self.log_box(LogKind.STANDING, now, device.box, text, device.id)

    def remember_standing(self, device: FarmDevice) -> None:
        """Keep a quarantine, and what an admin decided, for all that the holder of the box's key registers."""
        holder = _holder(device.box)
        kept = self.out_of_service.get(holder, {})
        if device.standing == "quarantined" or (device.standing != "ok" and device.by_admin):
            kept[device.id] = OutOfService(device.standing, device.reason, device.by_admin)
            self.out_of_service[holder] = kept
            self.out_of_service.move_to_end(holder)
            if len(self.out_of_service) > _OUT_OF_SERVICE_KEPT:
                self.out_of_service.popitem(last=False)
        elif kept.pop(device.id, None) is not None and not kept:
            del self.out_of_service[holder]

    def inherited_standing(self, device: FarmDevice) -> OutOfService | None:
        """Return the standing of a new device.
        It is that of the device it was before, or of another one that the same key registered."""
        kept = self.out_of_service.get(_holder(device.box))
        if not kept:
            return None
        same = kept.get(device.id)
        if same is not None:
            return same
        worst = next((one for one in kept.values() if one.by_admin), next(iter(kept.values())))
        return OutOfService(
            "quarantined", f"its key has {len(kept)} device(s) out of service: {worst.reason}"[:2000], worst.by_admin
        )

    def set_closed(self, box: Box, closed: str) -> None:
        """Why a box is not lent at this hour, or "". `settle` must follow."""
        box.closed = closed
        if closed:
            self.closed[box.name] = box
        else:
            self.closed.pop(box.name, None)

    # Clients and leases

    def client(self, peer: str) -> ClientHoldings:
        client = self.clients.get(peer)
        if client is None:
            client = self.clients[peer] = ClientHoldings()
        return client

    def add_request(self, request: Request) -> None:
        self.requests[request.id] = request
        self.waiting_of[request.holder] += 1

    def drop_request(self, request: Request) -> None:
        """Harmless for one that is gone already."""
        if self.requests.pop(request.id, None) is not None:
            self.waiting_of[request.holder] -= 1
            if not self.waiting_of[request.holder]:
                del self.waiting_of[request.holder]

    def drop_from_client(self, peer: str, *, request: str = "", lease: str = "") -> None:
        """Forget that a client has a request or lease, and the client with its last one."""
        client = self.clients.get(peer)
        if client is None:
            return
        client.requests.discard(request)
        client.leases.discard(lease)
        if not client.requests and not client.leases:
            del self.clients[peer]

    def remember_ended(self, lease: str) -> None:
        self.ended[lease] = None
        if len(self.ended) > _ENDED_KEPT:
            self.ended.popitem(last=False)

    def remember_answered(self, request: str, refusal: Refused | None) -> None:
        """Remember that a request is over, so that a repeated message does not count as a new one."""
        self.answered[request] = refusal
        if len(self.answered) > _ANSWERED_KEPT:
            self.answered.popitem(last=False)

    @property
    def settling_until(self) -> float:
        return (self.started or 0.0) + self.timing.settle_s


def _holder(box: Box) -> str:
    """Who answers for a box: its key. Without keys it is only known by its address."""
    return box.public or f"at {box.address}"
