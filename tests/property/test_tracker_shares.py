"""Runs that share a farm: each user's part of the device time, whatever came first, and nothing that stands idle."""

from __future__ import annotations

from collections import defaultdict
from itertools import count

import pytest

from rpc_server.wire import tracker_messages as tm
from rpc_server.wire.tracker_records import DeviceSpec
from tracker.farm_parts import Send, Timing
from tracker.state import Tick, TrackerState

STEP_S = 1.0


class Farm:
    """A tracker with boxes that do as told, and runs that each want every device and give wanted ones back."""

    def __init__(self, devices: int) -> None:
        self.now = 0.0
        secrets, self._serial = count(1), count(1)
        self.state = TrackerState(run="run", timing=Timing(), secret=lambda: f"s{next(secrets)}")
        self.devices = devices
        self.held: dict[str, dict[str, str]] = defaultdict(dict)  # tokens by lease, by client
        self.seconds: dict[str, float] = defaultdict(float)
        self.wanted: set[tuple[str, str]] = set()
        self.handovers = 0
        self._asking: dict[str, tm.RequestDevice] = {}
        self._on_box: dict[str, str] = {}
        for number in range(devices):
            spec = DeviceSpec(slot=0, key="cpu")
            self.tell(tm.BoxHello(f"box{number}", f"b{number}", f"b{number}:1", (spec,)))

    def tell(self, event: object) -> None:
        queue = [event]
        while queue:
            for command in self.state.handle(queue.pop(0), self.now):  # type: ignore[arg-type]
                match command:
                    case Send(peer, tm.GrantLease() as grant):
                        self._on_box[peer] = grant.lease
                        queue.append(tm.LeaseAccepted(peer, grant.lease))
                    case Send(peer, tm.RevokeLease() as revoke):
                        self._on_box.pop(peer, None)
                        queue.append(tm.LeaseOver(peer, revoke.lease, ""))
                    case Send(peer, tm.Granted(request, grant)):
                        if self._asking.pop(request, None):
                            self.held[peer][grant.lease] = grant.token
                    case Send(peer, tm.Renewed(_, back)):
                        self.wanted |= {(peer, lease) for lease in back}

    def ask(self, client: str, user: str, priority: int = 1, shares: bool = True) -> None:
        asked = tm.RequestDevice(client, f"r{next(self._serial)}", user, "cpu", priority, shares=shares)
        self._asking[asked.request] = asked
        self.tell(asked)

    def run(self, seconds: int, users: dict[str, str], priorities: dict[str, int] | None = None) -> None:
        """Let time pass: who gives a device back asks for another at once."""
        for _ in range(seconds):
            self.now += STEP_S
            for number in range(self.devices):
                box = f"box{number}"
                self.tell(tm.BoxHeartbeat(box, (self._on_box[box],) if box in self._on_box else ()))
            for asked in list(self._asking.values()):
                self.tell(asked)
            for client, leases in list(self.held.items()):
                self.tell(tm.RenewLeases(client, tuple(leases.items())))
            for client, lease in sorted(self.wanted):
                if (token := self.held[client].pop(lease, None)) is not None:
                    self.handovers += 1
                    self.tell(tm.ReleaseLease(client, lease, token))
                    self.ask(client, users[client], (priorities or {}).get(client, 1))
            self.wanted.clear()
            self.tell(Tick())
            assert sum(map(len, self.held.values())) <= self.devices
            for client, leases in self.held.items():
                self.seconds[client] += STEP_S * len(leases)

    @property
    def shares(self) -> dict[str, float]:
        whole = sum(self.seconds.values())
        return {client: seconds / whole for client, seconds in self.seconds.items()}


def begin(farm: Farm, users: dict[str, str]) -> None:
    """The first run takes all devices before the next ones come."""
    for client, user in users.items():
        for _ in range(farm.devices):
            farm.ask(client, user)


@pytest.mark.parametrize("devices", [1, 2, 8, 16])
def test_three_users_have_a_third_each(devices: int) -> None:
    users = {"a": "ada", "b": "bo", "c": "cy"}
    farm = Farm(devices)
    begin(farm, users)
    farm.run(600, users)
    assert all(abs(3 * share - 1) < 0.05 for share in farm.shares.values()), farm.shares
    assert sum(farm.seconds.values()) > 0.99 * devices * 600
    assert farm.handovers < 600 / 3  # devices measure more than they change hands


def test_time_alone_on_the_farm_is_not_paid_back() -> None:
    users = {"a": "ada", "b": "bo", "c": "cy"}
    farm = Farm(8)
    for client, user in users.items():
        begin(farm, {client: user})
        farm.run(60, users)
    farm.seconds.clear()
    farm.run(300, users)
    assert all(abs(3 * share - 1) < 0.05 for share in farm.shares.values()), farm.shares


def test_runs_of_one_user_share_what_the_user_has() -> None:
    users = {"a1": "ada", "a2": "ada", "b": "bo"}
    farm = Farm(8)
    begin(farm, users)
    farm.run(600, users)
    shares = farm.shares
    assert shares["b"] == pytest.approx(0.5, abs=0.04)
    assert shares["a1"] == pytest.approx(shares["a2"], abs=0.05)


def test_a_higher_priority_has_all_while_it_wants_all() -> None:
    users = {"a": "ada", "b": "bo"}
    farm = Farm(4)
    begin(farm, {"a": "ada"})
    farm.run(30, users)
    for _ in range(4):
        farm.ask("b", "bo", priority=5)
    farm.run(30, users, {"b": 5})
    assert len(farm.held["b"]) == 4
    assert not farm.held["a"]


def test_clients_that_do_not_share_keep_what_they_have() -> None:
    farm = Farm(2)
    for _ in range(2):
        farm.ask("a", "ada", shares=False)
    farm.ask("b", "bo")
    farm.run(60, {"a": "ada", "b": "bo"})
    assert len(farm.held["a"]) == 2
    assert not farm.wanted
