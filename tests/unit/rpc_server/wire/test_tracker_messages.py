"""The tracker's messages: they round-trip, and what breaks a limit is refused before it is believed."""

from __future__ import annotations

import msgspec
import pytest

from rpc_server.errors import ProtocolError
from rpc_server.wire import tracker_messages as tm
from rpc_server.wire.codec import MessageKind
from rpc_server.wire.tracker_records import DeviceInfo, DeviceSpec, HeldLease, LeaseGrant, LogEvent
from tracker.log import EventLog, LogKind

SPEC = DeviceSpec(
    slot=1, key="cpu", tags=("x",), attributes={"cores": 8, "features": ("avx2",), "arch": "znver3", "load": 0.5}
)


@pytest.mark.parametrize(
    "message",
    [
        tm.BoxHello(
            "p", "a", ":9091", (SPEC,), (HeldLease(lease="r-1", slot=0, token="1-s", user="u", client="c"),), 7
        ),
        tm.BoxHeartbeat("p", ("r-1",)),
        tm.RequestDevice("p", "r", "u", "cpu", 2, 1.5, None, ("a/0",)),
        tm.RenewLeases("p", (("r-1", "1-s"),)),
        tm.Query("events", "5", 10),
    ],
)
def test_messages_to_the_tracker_round_trip(message: object) -> None:
    frames = tm.to_tracker.encode(message, MessageKind.NOTE)  # type: ignore[arg-type]
    assert tm.to_tracker.decode(frames).body == message


def test_messages_from_the_tracker_round_trip() -> None:
    grant = LeaseGrant(
        lease="r-1",
        token="1-s",
        device="a/0",
        slot=0,
        key="cpu",
        address="a:1",
        fingerprint="f",
        attributes={"features": ("avx2",)},
        renew_s=1.0,
        grace_s=10.0,
    )
    granted = tm.Granted("r", grant)
    assert tm.to_client.decode(tm.from_tracker.encode(granted)).body == granted


@pytest.mark.parametrize(
    "message",
    [
        tm.CancelRequest("", "r"),
        tm.CancelRequest("p" * 201, "r"),
        tm.RequestDevice("p", "r", "u", "x" * 2001),
        tm.RequestDevice("p", "r", "u", "x", priority=5000),
        tm.RequestDevice("p", "r", "u", "x", wait_s=-1.0),
        tm.RequestDevice("p", "r", "u", "x", wait_s=float("nan")),
        tm.RequestDevice("p", "r", "u", "x", exclude=("d",) * 17),
        tm.BoxHello("p", "a", ":1", tuple(DeviceSpec(slot=i, key="k") for i in range(65))),
        tm.BoxHello("p", "a", ":1", (), high=-1),
        tm.Query("secrets"),  # type: ignore[arg-type]
        tm.Query("devices", limit=501),
    ],
)
def test_what_breaks_a_limit_is_refused(message: object) -> None:
    frames = tm.to_tracker.encode(message)  # type: ignore[arg-type]
    with pytest.raises(ProtocolError):
        tm.to_tracker.decode(frames)


def test_the_union_is_closed() -> None:
    frames = tm.to_tracker.encode(tm.BoxHeartbeat("p"))
    with pytest.raises(ProtocolError):
        tm.to_box.decode(frames)
    other = [frames[0], msgspec.msgpack.encode({"type": "BoxHeartbeat", "peer": "p", "extra": 1})]
    with pytest.raises(ProtocolError):
        tm.to_tracker.decode(other)
    with pytest.raises(ProtocolError):
        tm.to_tracker.decode([frames[0], b"\x00" * (tm.LIMITS.max_body + 1)])


def test_a_full_page_of_devices_fits_in_a_message() -> None:
    info = DeviceInfo(
        id="b" * 60,
        box="b" * 60,
        slot=0,
        key="k" * 60,
        tags=("t" * 20,) * 8,
        address="a" * 60,
        state="quarantined",
        reason="r" * 200,
        fingerprint="f" * 100,
        attributes={f"name{i}": "v" * 80 for i in range(11)},
        user="u",
        lease="l" * 40,
        held_s=1.0,
        leases=1,
        busy_s=1.0,
        known_s=4.0,
        seen_s=0.0,
    )
    assert info.utilisation == 0.25
    assert len(tm.from_tracker.encode(tm.DevicePage((info,) * 500, False))[1]) < tm.LIMITS.max_body


def test_the_log_keeps_the_newest_and_says_what_is_gone() -> None:
    log = EventLog(size=10)
    assert (log.first, log.page(0, 5)) == (1, ((), False))
    for seq in range(1, 26):
        log.append(LogEvent(seq=seq, time=0.0, kind=LogKind.QUEUED))
    assert log.first == 16
    events, more = log.page(0, 4)
    assert ([e.seq for e in events], more) == ([16, 17, 18, 19], True)
    events, more = log.page(22, 10)
    assert ([e.seq for e in events], more) == ([23, 24, 25], False)
    assert log.page(25, 10) == ((), False)
    assert log.page(10**9, 10) == ((), False)
    assert tm.from_tracker.encode(tm.EventPage(events, log.first, more))
