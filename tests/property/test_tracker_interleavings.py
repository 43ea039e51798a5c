"""Random interleavings of everything that happens to a farm: no device is lent twice at any moment, no device
idles while a request waits for it, and in the end every lease is over and every request answered."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from rpc_server.wire.tracker_messages import Admin
from tests.kit.farm.tracker_world import World
from tests.kit.fuzzing import examples

pick = st.integers(min_value=0, max_value=10**6)


class FarmMachine(RuleBasedStateMachine):
    @initialize(slots=st.integers(1, 2))
    def start(self, slots: int) -> None:
        self.world = World()
        self.world.add_box("a", slots)
        self.world.add_box("b", 1)
        self.world.add_client("ann")
        self.world.add_client("bob")

    def _client(self, which: int):  # type: ignore[no-untyped-def]
        clients = list(self.world.clients.values())
        return clients[which % len(clients)] if clients else self.world.add_client("eve")

    @rule(which=pick, expr=st.sampled_from(["cpu", "*", "gpu"]), priority=st.integers(0, 3), wait=st.booleans())
    def ask(self, which: int, expr: str, priority: int, wait: bool) -> None:
        self._client(which).ask(expr, priority, wait_s=3.0 if wait else None, limit_s=8.0 if priority == 3 else None)

    @rule(which=pick, n=st.integers(1, 12))
    def deliver(self, which: int, n: int) -> None:
        for i in range(n):
            busy = self.world.busy_channels()
            if busy:
                self.world.deliver(*busy[(which + i) % len(busy)])

    @rule()
    def deliver_all(self) -> None:
        self.world.settle(close=False)

    @rule(which=pick)
    def use(self, which: int) -> None:
        client = self._client(which)
        for grant in client.held.values():
            box = self.world.boxes.get(grant.device.partition("/")[0])
            if box is not None:
                box.open_session(grant.lease)

    @rule()
    def close_sessions(self) -> None:
        for box in self.world.boxes.values():
            box.close_sessions()

    @rule(which=pick, faulty=st.booleans())
    def release(self, which: int, faulty: bool) -> None:
        client = self._client(which)
        if client.held:
            client.release(list(client.held)[which % len(client.held)], "it crashed" if faulty else "")

    @rule(which=pick)
    def cancel(self, which: int) -> None:
        client = self._client(which)
        if client.pending:
            client.cancel(list(client.pending)[which % len(client.pending)])

    @rule(seconds=st.sampled_from([0.1, 0.6, 1.0, 2.1, 3.1, 11.0]))
    def advance(self, seconds: float) -> None:
        self.world.advance(seconds)

    @rule(seconds=st.sampled_from([1.0, 4.0]))
    def live_on(self, seconds: float) -> None:
        self.world.run_for(seconds)

    @rule(which=pick)
    def client_dies(self, which: int) -> None:
        self.world.kill_client(self._client(which))
        self.world.add_client(["ann", "bob", "eve"][which % 3])

    @rule(which=pick)
    def client_leaves(self, which: int) -> None:
        self._client(which).bye()

    @precondition(lambda self: self.world.boxes)
    @rule(which=pick)
    def box_dies(self, which: int) -> None:
        self.world.kill_box(list(self.world.boxes)[which % len(self.world.boxes)])

    @rule(name=st.sampled_from(["a", "b", "c"]), slots=st.integers(1, 2))
    def box_starts(self, name: str, slots: int) -> None:
        if name in self.world.boxes:
            self.world.kill_box(name)
        self.world.add_box(name, slots)

    @precondition(lambda self: self.world.boxes)
    @rule(which=pick)
    def box_is_cut_off_or_comes_back(self, which: int) -> None:
        box = list(self.world.boxes.values())[which % len(self.world.boxes)]
        box.connected = not box.connected
        self.world.drop(box.peer)

    @rule()
    def tracker_restarts(self) -> None:
        self.world.restart_tracker()

    @precondition(lambda self: self.world.boxes)
    @rule(which=pick, healthy=st.booleans())
    def health(self, which: int, healthy: bool) -> None:
        box = list(self.world.boxes.values())[which % len(self.world.boxes)]
        box.healthy = healthy
        if not healthy:
            box.do(box.core.suspect(0, "it feels slow"))

    @rule(which=pick, action=st.sampled_from(["drain", "undrain", "quarantine", "unquarantine", "check"]))
    def admin(self, which: int, action: str) -> None:
        devices = sorted(self.world.state.farm.devices)
        if devices:
            self.world.tell_tracker(Admin(action, devices[which % len(devices)], "because"))  # type: ignore[arg-type]

    @invariant()
    def holds(self) -> None:
        if hasattr(self, "world"):
            self.world.check()

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        world = self.world
        for box in world.boxes.values():
            box.connected = box.healthy = True
        world.run_for(8.0)
        for device in sorted(world.state.farm.devices):
            world.tell_tracker(Admin("undrain", device))
            world.tell_tracker(Admin("unquarantine", device))
        if "z" not in world.boxes:
            world.add_box("z")
            world.add_box("g", key="gpu")
        for _ in range(200):
            world.run_for(1.0)
            for client in world.clients.values():
                for lease in list(client.held):
                    client.release(lease)
            if not any(client.pending for client in world.clients.values()):
                break
        assert not any(client.pending for client in world.clients.values()), "a request starved"
        world.run_for(30.0)
        world.check()
        assert not world.state.farm.leases
        assert not world.state.farm.requests
        assert not world.state.farm.clients
        assert not world.holders
        assert not any(box.allowed for box in world.boxes.values())
        for box in world.boxes.values():
            for slot in range(len(box.core.devices)):
                assert world.state.farm.devices[f"{box.name}/{slot}"].state == "ready"


FarmMachine.TestCase.settings = settings(
    max_examples=examples(40), stateful_step_count=60, suppress_health_check=[HealthCheck.too_slow]
)
TestFarm = FarmMachine.TestCase
