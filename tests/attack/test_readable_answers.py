"""The tracker's answers to others can be sent and read, whatever one peer says within its bounds."""

from __future__ import annotations

import msgspec
import pytest

from rpc_server.wire import tracker_messages as tm
from rpc_server.wire.codec import MessageKind
from rpc_server.wire.tracker_records import DeviceSpec, LogEvent
from tests.kit.farm.tracker_script import Script, ask, hello, lent
from tracker.log import EventLog, LogKind


def read(answer):
    return tm.from_tracker.decode(
        [bytes(frame) for frame in tm.from_tracker.encode(answer, MessageKind.REPLY, request_id=1)]
    ).body


def listed(script):
    found, after, more = [], "", True
    while more:
        page = read(script.state.device_page(after, 500, script.now))
        found += page.devices
        after, more = page.devices[-1].id, page.more
    return found


def test_a_check_that_was_long_ago():
    script = Script()
    script(hello("evil"))
    script(tm.CheckResult("box-evil", 0, True, age_s=1e9))
    script(tm.SuspectDevice("box-evil", 0, "because"), 3600.0)
    assert [device.id for device in listed(script)] == ["evil/0"]


def test_a_long_expression():
    """Two that are within a message's bounds: one waits, and one was granted."""
    script = Script()
    script(hello("a", devices=(DeviceSpec(slot=0, key="cpu", attributes={"arch": "z"}),)))
    others = "|".join(f"y{number}" * 10 for number in range(15))
    script(ask("long", "eve", f"cpu & arch={others}"))
    lent(script, "long2", "eve", expr=f"cpu & arch=z|{others}")
    queues = {queue.key: queue for queue in read(script.state.queue_page()).queues}
    assert queues["cpu"].devices == 1
    assert sum(queue.pending for queue in queues.values()) == 1
    assert sum(queue.waiting + queue.granted for queue in read(script.state.numbers(script.now)).queues) == 2


def test_thousands_of_expressions():
    script = Script()
    script(hello("a"))
    script(ask("mine", "ann", "cpu & nothing"))
    for number in range(1200):
        script(ask(f"r{number}", f"eve{number}", f"key{number} & of={'y' * 180}"))
    assert len(script.state.farm.requests) > 1000
    assert "cpu" in {queue.key for queue in read(script.state.queue_page()).queues}
    read(script.state.numbers(script.now))


@pytest.mark.parametrize("filling", ["x", "ä", "\U0001f600"])
def test_devices_that_say_much_of_themselves(filling):
    """Each box's message fits; those of all together do not."""
    script = Script()
    attributes = {f"a{number}": filling * (1900 // len(filling.encode())) for number in range(60)}
    for box in range(8):
        devices = tuple(DeviceSpec(slot=slot, key="cpu", attributes=attributes) for slot in range(4))
        script(hello(f"evil{box}", devices=devices))
    script(hello("a"))
    assert len(listed(script)) == 33


def test_events_with_long_texts():
    log = EventLog(2000)
    for seq in range(1, 1001):
        log.append(LogEvent(seq=seq, time=0.0, kind=LogKind.STANDING, text="ä" * 2000))
    after, more, found = 0, True, 0
    while more:
        events, more = log.page(after, 500)
        read(tm.EventPage(events, log.first, more))
        after, found = events[-1].seq, found + len(events)
    assert found == 1000


def test_a_lease_of_a_device_that_says_much_of_itself():
    script = Script()
    attributes = {f"a{number}": "x" * 1990 for number in range(60)}
    script(hello("a" * 60, "box-a", devices=(DeviceSpec(slot=65536, key="k" * 60, attributes=attributes),)))
    sent = [message for _, message in script(ask("r", "c", "k" * 60))]
    for message in sent:
        read(message)
    offered = next(message for message in sent if isinstance(message, tm.GrantLease))
    for _, message in script(tm.LeaseAccepted("box-a", offered.lease)):
        read(message)


def test_the_highest_number_that_a_box_may_have_seen():
    """The numbers of the tracker's next leases are within the bounds of its own messages."""
    (high,) = [f.type.le for f in msgspec.inspect.type_info(tm.BoxHello).fields if f.name == "high"]
    script = Script()
    script(hello("evil", key="cpu", high=high))
    lent(script, "r1", "eve", box="evil")
    page = read(tm.EventPage(tuple(script.log), 1, False))
    assert max(event.number for event in page.events) == high + 1
