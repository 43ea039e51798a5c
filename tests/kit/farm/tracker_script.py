"""The tracker's rules as tests play them: events in, what is sent out; and the events they begin with."""

from __future__ import annotations

from itertools import count
from typing import Any

from rpc_server.wire.tracker_messages import BoxHello, Granted, GrantLease, LeaseAccepted, RequestDevice
from rpc_server.wire.tracker_records import DeviceSpec, HeldLease, LeaseGrant, LogEvent
from tracker.farm_parts import Record, Send, Timing
from tracker.state import TrackerState


class Script:
    """A tracker whose run is called `run`, and whose secrets are s1, s2, …"""

    def __init__(self, run: str = "run", now: float = 100.0, **timing: float) -> None:
        secrets = count(1)
        self.state = TrackerState(run=run, timing=Timing(**timing), secret=lambda: f"s{next(secrets)}")
        self.now = now
        self.log: list[LogEvent] = []

    def __call__(self, event: Any, after: float = 0.0) -> list[tuple[str, Any]]:
        """Return the messages, as (peer, message), that an event `after` seconds later sends."""
        self.now += after
        sent = []
        for command in self.state.handle(event, self.now):
            match command:
                case Send(peer, message):
                    sent.append((peer, message))
                case Record(logged):
                    self.log.append(logged)
        return sent

    def kinds(self) -> list[str]:
        return [event.kind for event in self.log]

    def device(self, device: str) -> Any:
        return next(d for d in self.state.device_page("", 100, self.now).devices if d.id == device)

    def state_of(self, device: str) -> str:
        return str(self.device(device).state)


def hello(box: str = "a", peer: str = "", slots: int = 1, leases: tuple[HeldLease, ...] = (), **more: Any) -> BoxHello:
    devices = tuple(DeviceSpec(slot=slot, key=more.get("key", "cpu")) for slot in range(slots))
    address = more.get("address", f"{box}:9091")
    return BoxHello(peer or f"box-{box}", box, address, more.get("devices", devices), leases, more.get("high", 0))


def ask(request: str = "r1", peer: str = "c1", expr: str = "cpu", **more: Any) -> RequestDevice:
    return RequestDevice(peer=peer, request=request, user=more.pop("user", "ann"), expr=expr, **more)


def lent(script: Script, request: str = "r1", peer: str = "c1", box: str = "a", **more: Any) -> LeaseGrant:
    """Ask, have the box accept, and return what the client got."""
    sent = script(ask(request, peer, **more))
    offered = next(message for _, message in sent if isinstance(message, GrantLease))
    ((to, granted),) = script(LeaseAccepted(f"box-{box}", offered.lease))
    assert to == peer
    assert isinstance(granted, Granted)
    return granted.grant
