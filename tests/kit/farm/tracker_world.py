"""A farm in one process: the real tracker state machine, real box agents, simple clients, and messages that
arrive when the test says so. Shared by the tracker's property tests."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import count

from rpc_server.farm_link.leases import LeaseReport
from rpc_server.farm_link.registrar_core import Action, Allow, Forbid, RegistrarCore, RunCheck, SendToTracker
from rpc_server.machine.health import Health
from rpc_server.wire import tracker_messages as tm
from rpc_server.wire.tracker_records import DeviceSpec, LeaseGrant, LogEvent
from tracker.farm_parts import Record, Send, Timing
from tracker.log import LogKind
from tracker.state import Tick, TrackerState

TIMING = Timing(settle_s=6.0, check_s=2.0, recheck_s=4.0, forget_s=60.0)


class SimBox:
    """A box: the agent's real core, and a supervisor that ends a session some time after it is asked to."""

    def __init__(self, world: World, name: str, peer: str, slots: int, key: str) -> None:
        self.world = world
        self.name = name
        self.peer = peer
        self.core = RegistrarCore(peer, name, f"{name}:9091", [DeviceSpec(slot=slot, key=key) for slot in range(slots)])
        self.allowed: dict[str, int] = {}
        self.sessions: set[str] = set()
        self.to_close: list[str] = []
        self.alive = True
        self.connected = True
        self.healthy = True

    def slot_of(self, lease: str) -> int:
        return self.core._held[lease].grant.slot

    def do(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case SendToTracker(message):
                    if self.connected:
                        self.world.up[self.peer].append(message)
                    else:
                        self.core.cut_off(self.world.now)
                case Allow(lease):
                    self.allowed[lease] = self.slot_of(lease)
                    self.check_fence()
                case Forbid(lease):
                    self.allowed.pop(lease, None)
                    if lease in self.sessions:
                        self.to_close.append(lease)
                case RunCheck(slot):
                    health = Health(self.healthy, "" if self.healthy else "wrong")
                    self.do(self.core.check_done(slot, health, self.world.now))
                case _:
                    pass

    def check_fence(self) -> None:
        """No two tokens open one slot, and no session lives on beside another lease's token."""
        slots = list(self.allowed.values())
        assert len(slots) == len(set(slots)), f"{self.name} lets two leases in on one slot"

    def open_session(self, lease: str) -> bool:
        if not self.alive or lease not in self.allowed or lease in self.sessions:
            return False
        self.sessions.add(lease)
        self.do(self.core.session(LeaseReport(lease, "opened"), self.world.now))
        return True

    def close_sessions(self) -> None:
        closing, self.to_close = self.to_close, []
        for lease in closing:
            self.sessions.discard(lease)
            self.do(self.core.session(LeaseReport(lease, "closed"), self.world.now))


class SimClient:
    def __init__(self, world: World, peer: str, user: str) -> None:
        self.world = world
        self.peer = peer
        self.user = user
        self.pending: dict[str, tm.RequestDevice] = {}
        self.held: dict[str, LeaseGrant] = {}
        self.refused: list[tm.Refused] = []
        self.lost: list[tm.LeaseLost] = []
        self.alive = True

    def say(self, message: tm.FromClient) -> None:
        if self.alive:
            self.world.up[self.peer].append(message)

    def ask(self, expr: str, priority: int = 1, wait_s: float | None = None, limit_s: float | None = None) -> str:
        request = f"r{next(self.world.serial)}"
        asked = tm.RequestDevice(self.peer, request, self.user, expr, priority, wait_s, limit_s)
        self.pending[request] = asked
        self.say(asked)
        return request

    def cancel(self, request: str) -> None:
        if self.pending.pop(request, None) is not None:
            self.say(tm.CancelRequest(self.peer, request))

    def release(self, lease: str, fault: str = "") -> None:
        grant = self.held.pop(lease)
        self.say(tm.ReleaseLease(self.peer, lease, grant.token, fault))

    def beat(self) -> None:
        self.say(tm.RenewLeases(self.peer, tuple((g.lease, g.token) for g in self.held.values())))
        for asked in self.pending.values():
            self.say(asked)

    def bye(self) -> None:
        self.say(tm.ClientBye(self.peer))
        self.pending.clear()
        self.held.clear()

    def take(self, message: tm.ToClient) -> None:
        match message:
            case tm.Granted(request, grant):
                if self.pending.pop(request, None) is not None:
                    self.held[grant.lease] = grant
                elif grant.lease not in self.held:
                    self.say(tm.ReleaseLease(self.peer, grant.lease, grant.token))
            case tm.Refused(request):
                if self.pending.pop(request, None) is not None:
                    self.refused.append(message)
            case tm.LeaseLost(lease):
                if self.held.pop(lease, None) is not None:
                    self.lost.append(message)
            case _:
                pass


class World:
    """Messages travel in order along each peer's two channels, `up` to the tracker and `down` from it."""

    def __init__(self, timing: Timing = TIMING) -> None:
        self.timing = timing
        self.now = 1000.0
        self.serial: Iterator[int] = count(1)
        self.boxes: dict[str, SimBox] = {}
        self.clients: dict[str, SimClient] = {}
        self.up: dict[str, deque[tm.FromBox | tm.FromClient]] = {}
        self.down: dict[str, deque[tm.ToBox | tm.ToClient]] = {}
        self.holders: dict[str, str] = {}
        self.log: list[LogEvent] = []
        self.run = 0
        self.state = self._new_tracker()
        self.on_event: Callable[[LogEvent], None] = lambda event: None

    def _new_tracker(self) -> TrackerState:
        self.run += 1
        self.holders.clear()
        secrets = count(1)
        return TrackerState(run=f"run{self.run}", timing=self.timing, secret=lambda: f"s{next(secrets)}")

    # Peers

    def add_box(self, name: str, slots: int = 1, key: str = "cpu") -> SimBox:
        peer = f"box-{name}-{next(self.serial)}"
        self._open(peer)
        box = self.boxes[name] = SimBox(self, name, peer, slots, key)
        box.do(box.core.tick(self.now))
        return box

    def add_client(self, user: str) -> SimClient:
        peer = f"client-{next(self.serial)}"
        self._open(peer)
        client = self.clients[peer] = SimClient(self, peer, user)
        return client

    def _open(self, peer: str) -> None:
        self.up[peer] = deque()
        self.down[peer] = deque()

    def kill_box(self, name: str) -> None:
        box = self.boxes.pop(name)
        box.alive = False
        self.drop(box.peer)

    def kill_client(self, client: SimClient) -> None:
        client.alive = False
        self.clients.pop(client.peer)
        self.drop(client.peer)

    def drop(self, peer: str) -> None:
        self.up[peer].clear()
        self.down[peer].clear()

    def restart_tracker(self) -> None:
        for peer in self.up:
            self.drop(peer)
        self.state = self._new_tracker()

    # Time and messages

    def tell_tracker(self, event: tm.FromBox | tm.FromClient | Tick) -> None:
        for command in self.state.handle(event, self.now):  # type: ignore[arg-type]
            match command:
                case Send(peer, message):
                    if peer in self.down:
                        self.down[peer].append(message)
                case Record(event_):
                    self._record(event_)

    def _record(self, event: LogEvent) -> None:
        """Hold the log to its promise: from granted or restored to ended, one device has one lease."""
        self.log.append(event)
        if event.kind in (LogKind.GRANTED, LogKind.RESTORED):
            other = self.holders.get(event.device)
            assert other is None, f"{event.device} was lent to {event.lease} while {other} held it"
            self.holders[event.device] = event.lease
        elif event.kind == LogKind.ENDED:
            assert self.holders.pop(event.device) == event.lease
        self.on_event(event)

    def busy_channels(self) -> list[tuple[str, str]]:
        return [("up", peer) for peer in self.up if self.up[peer]] + [
            ("down", peer) for peer in self.down if self.down[peer]
        ]

    def deliver(self, direction: str, peer: str) -> None:
        if direction == "up":
            self.tell_tracker(self.up[peer].popleft())
            return
        message = self.down[peer].popleft()
        client = self.clients.get(peer)
        if client is not None:
            client.take(message)  # type: ignore[arg-type]
            return
        for box in self.boxes.values():
            if box.peer == peer and box.connected:
                box.do(box.core.handle(message, self.now))  # type: ignore[arg-type]

    def settle(self, close: bool = True) -> None:
        """Deliver everything, and what that causes, in a fixed order."""
        while True:
            for box in list(self.boxes.values()):
                if close:
                    box.close_sessions()
            busy = self.busy_channels()
            if not busy:
                return
            for direction, peer in busy:
                self.deliver(direction, peer)

    def advance(self, seconds: float) -> None:
        """Let time pass: boxes and clients do what is due, and the tracker gets its ticks."""
        self.now += seconds
        for box in list(self.boxes.values()):
            box.do(box.core.tick(self.now))
        for client in list(self.clients.values()):
            client.beat()
        self.tell_tracker(Tick())

    def run_for(self, seconds: float, step: float = 0.5) -> None:
        for _ in range(round(seconds / step)):
            self.advance(step)
            self.settle()

    # What must hold at any moment

    def check(self) -> None:
        farm = self.state.farm
        free = set(farm.allocator.free_devices())
        lendable = {d.id for d in farm.devices.values() if d.lendable}
        assert free == lendable
        for waiting in farm.allocator.waiting():
            for device in free - waiting.exclude:
                spec = farm.devices[device].spec
                assert str(waiting.predicate) not in (spec.key, "*"), "a device idles while a request waits for it"
        leased = {d.id: d.lease.id for d in farm.devices.values() if d.lease is not None}
        assert leased == self.holders
        assert set(leased.values()) == set(farm.leases)
        queued = {w.request for w in farm.allocator.waiting()}
        assert queued == {r.id for r in farm.requests.values() if r.lease is None}
        for box in self.boxes.values():
            box.check_fence()
