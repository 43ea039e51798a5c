"""Matching: priority, fair share, first come, turns between device classes, and the cost of a grant."""

from __future__ import annotations

from itertools import count

import pytest

from tracker.allocate import OVERDUE_EVERY, Allocator, Place, Waiting
from tracker.capability import Capabilities, parse_capability


class Farm:
    """An allocator with devices of one or more kinds, driven as the tracker's state machine drives it."""

    def __init__(self, *devices: tuple[str, Capabilities], overdue_s: float = 600.0) -> None:
        self.allocator = Allocator(overdue_s)
        self.order = count()
        self.user_of: dict[str, str] = {}
        self.holder: dict[str, str] = {}
        for device, caps in devices:
            self.allocator.add_device(device, caps)
            self.allocator.set_free(device)

    def ask(self, request: str, expr: str = "cpu", user: str = "ann", **more: object) -> str | None:
        waiting = Waiting(request, user, parse_capability(expr), next(self.order), 0.0, **more)  # type: ignore[arg-type]
        self.user_of[request] = user
        self.allocator.add_request(waiting)
        device = self.allocator.next_device(request)
        if device is not None:
            self._give(request, device)
        return device

    def free(self, device: str, held_s: float = 1.0, now: float = 0.0) -> str | None:
        self.allocator.gave_back(self.user_of[self.holder.pop(device)], held_s)
        self.allocator.set_free(device)
        request = self.allocator.next_request(device, now)
        if request is not None:
            self._give(request, device)
        return request

    def _give(self, request: str, device: str) -> None:
        assert device not in self.holder
        self.allocator.remove_request(request)
        self.allocator.set_busy(device)
        self.allocator.took(self.user_of[request])
        self.holder[device] = request


CPU = Capabilities.of("cpu", (), {"cores": 8})
SMALL = Capabilities.of("cpu", (), {"cores": 2})
GPU = Capabilities.of("gpu")


def test_first_come_within_a_user() -> None:
    farm = Farm(("a", CPU))
    assert farm.ask("r1") == "a"
    assert farm.ask("r2") is None
    assert farm.ask("r3") is None
    assert farm.free("a") == "r2"
    assert farm.free("a") == "r3"
    assert farm.free("a") is None


def test_only_matching_devices_are_given() -> None:
    farm = Farm(("a", CPU), ("s", SMALL), ("g", GPU))
    assert farm.ask("r1", "gpu") == "g"
    assert farm.ask("r2", "gpu") is None
    assert farm.ask("r3", "cores>=4") == "a"
    assert farm.ask("r4", "cores>=4") is None
    assert farm.ask("r5") == "s"
    assert farm.free("s") is None
    assert farm.free("a") == "r4"


def test_higher_priority_first_across_expressions() -> None:
    farm = Farm(("a", CPU))
    farm.ask("held")
    farm.ask("low")
    farm.ask("high", "cores>=4", priority=5)
    assert farm.free("a") == "high"
    assert farm.free("a") == "low"


def test_the_user_holding_fewer_devices_goes_first() -> None:
    farm = Farm(("a", CPU), ("b", CPU))
    farm.ask("ann1", user="ann")
    farm.ask("ann2", user="ann")
    farm.ask("ann3", user="ann")
    farm.ask("bob1", user="bob")
    assert farm.free("a") == "bob1"
    assert farm.free("b") == "ann3"


def test_device_time_evens_out_on_one_device() -> None:
    farm = Farm(("a", CPU))
    farm.ask("first", user="ann")
    for i in range(60):
        farm.ask(f"ann{i}", user="ann")
        farm.ask(f"bob{i}", user="bob")
    had = {"ann": 0.0, "bob": 0.0}
    for _ in range(40):
        user = farm.user_of[farm.holder["a"]]
        held = 10.0 if user == "ann" else 1.0
        had[user] += held
        farm.free("a", held)
    assert abs(had["ann"] - had["bob"]) <= 20.0


def test_neither_absence_nor_past_use_is_paid_for() -> None:
    farm = Farm(("a", CPU))
    for i in range(5):
        farm.ask(f"alone{i}", user="ann")
        farm.free("a", 1000.0)
    farm.ask("ann0", user="ann")
    for i in range(4):
        farm.ask(f"bob{i}", user="bob")
        farm.ask(f"ann{i + 1}", user="ann")
    served = [farm.user_of[str(farm.free("a", 1.0))] for _ in range(6)]
    assert sorted(served[:2]) == ["ann", "bob"] or served[:2] == ["bob", "bob"]
    assert 2 <= served.count("ann") <= 4


def test_an_overdue_request_is_served_out_of_turn() -> None:
    farm = Farm(("a", CPU), overdue_s=100.0)
    farm.ask("first", user="vip", priority=9)
    farm.ask("poor", user="poor", priority=0)
    for i in range(3 * OVERDUE_EVERY):
        farm.ask(f"vip{i}", user="vip", priority=9)
    early = [farm.free("a", now=50.0) for _ in range(OVERDUE_EVERY)]
    assert "poor" not in early
    late = [farm.free("a", now=200.0) for _ in range(OVERDUE_EVERY)]
    assert late.count("poor") == 1


def test_excluded_and_named_devices() -> None:
    farm = Farm(("a", CPU), ("b", CPU))
    assert farm.ask("r1", exclude=frozenset({"a"})) == "b"
    assert farm.ask("r2", exclude=frozenset({"a"})) is None
    assert farm.ask("r3", "cpu device=b") is None
    assert farm.ask("r4", "gpu device=a") is None
    assert farm.ask("r5", "device=a") == "a"
    assert farm.free("a") is None
    assert farm.free("b") == "r2"
    assert farm.free("b") == "r3"


def test_classes_and_devices_take_turns() -> None:
    farm = Farm(("a1", CPU), ("a2", CPU), ("s1", SMALL))
    used = []
    for i in range(6):
        device = farm.ask(f"r{i}")
        assert device is not None
        used.append(device)
        farm.free(device)
    assert used == ["a1", "s1", "a2", "s1", "a1", "s1"]


def test_a_removed_device_is_not_given() -> None:
    farm = Farm(("a", CPU))
    farm.allocator.remove_device("a")
    assert farm.ask("r1") is None
    assert farm.allocator.matching_devices(parse_capability("cpu")) == 0
    farm.allocator.add_device("b", CPU)
    assert farm.allocator.matching_devices(parse_capability("cpu")) == 1
    farm.allocator.set_free("b")
    assert farm.allocator.next_request("b", 0.0) == "r1"


def test_a_cancelled_request_leaves_the_queue() -> None:
    farm = Farm(("a", CPU))
    farm.ask("r1")
    farm.ask("r2")
    assert farm.allocator.remove_request("r2") is not None
    assert farm.allocator.remove_request("r2") is None
    assert farm.free("a") is None


def test_a_request_that_comes_back_keeps_its_place() -> None:
    farm = Farm(("a", CPU))
    farm.ask("r0")
    farm.ask("r1")
    farm.ask("r2")
    back = farm.allocator.remove_request("r1")
    assert back is not None
    farm.ask("r3")
    farm.allocator.add_request(back)
    assert [farm.free("a") for _ in range(3)] == ["r1", "r2", "r3"]


def test_places_play_out_fair_rounds() -> None:
    farm = Farm(("a", CPU))
    farm.ask("held", user="ann")
    farm.ask("ann1", user="ann")
    farm.ask("ann2", user="ann")
    farm.ask("bob1", "cores>=4", user="bob")
    farm.ask("vip", user="eve", priority=9)
    farm.ask("elsewhere", "gpu")
    places = farm.allocator.places(parse_capability("cpu"))
    assert places == {"vip": Place(1, 4), "ann1": Place(3, 4), "ann2": Place(4, 4)}
    assert farm.allocator.places(parse_capability("cores>=4")) == {"bob1": Place(2, 4)}
    assert farm.allocator.places(parse_capability("nothing")) == {}


def _steps_per_grant(boxes: int, distinct: bool) -> float:
    """Matching steps of one grant and one return, in a farm of so many boxes with a queue on each kind."""
    kinds = [
        Capabilities.of("cpu" if i % 2 else "gpu", ("lab",), {"host": str(i)} if distinct else {}) for i in range(boxes)
    ]
    farm = Farm(*((f"box{i}", caps) for i, caps in enumerate(kinds)))
    serial = count()
    expressions = ["cpu", "gpu", "lab", "cpu lab", "*"]
    users = [f"user{i}" for i in range(10)]
    for i in range(boxes + 100):
        farm.ask(f"r{next(serial)}", expressions[i % 5], users[i % 10])
    busy = sorted(farm.holder)[:64]
    before = farm.allocator.steps
    grants = 0
    for turn in range(256):
        device = busy[turn % len(busy)]
        grants += device in farm.holder and farm.free(device) is not None
        i = next(serial)
        grants += farm.ask(f"r{i}", expressions[i % 5], users[i % 10]) is not None
    assert grants > 200
    return (farm.allocator.steps - before) / grants


@pytest.mark.parametrize("distinct", [False, True], ids=["alike", "all-different"])
def test_the_cost_of_a_grant_does_not_grow_with_boxes(distinct: bool) -> None:
    small, large = _steps_per_grant(50, distinct), _steps_per_grant(5000, distinct)
    assert large <= small * 1.2 + 2


def test_users_who_left_are_forgotten() -> None:
    farm = Farm(("a", CPU))
    for i in range(5000):
        farm.ask(f"r{i}", user=f"user{i}")
        farm.free("a", 1.0)
    assert len(farm.allocator._users) < 10
    farm.ask("holds")
    farm.ask("waits", "device=elsewhere")
    for i in range(5000):
        farm.ask(f"s{i}", user=f"user{i}")
        farm.free("a", 1.0)
    assert len(farm.allocator._users) < 3000
