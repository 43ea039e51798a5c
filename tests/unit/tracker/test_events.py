"""The tracker's event log by name: each kind happens, and says whom it is about."""

from __future__ import annotations

from rpc_server.wire import tracker_messages as tm
from rpc_server.wire.tracker_records import DeviceSpec, HeldLease
from tests.kit.farm.tracker_script import Script, ask, hello, lent
from tracker.log import LogKind
from tracker.state import Tick


def story() -> Script:
    """A farm's day, in which everything happens once at least."""
    script = Script()
    held = HeldLease(lease="old-7", slot=0, token="7-s", user="eve", client="c9")
    script(tm.BoxHello("box-b", "b", "b:9091", (DeviceSpec(slot=0, key="gpu"),), (held,), 7))
    script(hello())
    script(tm.CheckResult("box-a", 0, True, "fit"))
    mine = lent(script)
    script(ask("r2"))
    script(tm.CancelRequest("c1", "r2"))
    script(ask("r3", wait_s=0.0))
    script(tm.RenewLeases("c1", ((mine.lease, "1-wrong"),)))
    script(tm.ReleaseLease("c1", mine.lease, mine.token))
    script(tm.LeaseOver("box-a", mine.lease))
    script(tm.Admin("drain", "a/0", "moving it"))
    script(tm.BoxBye("box-b", "shut down"))
    script(Tick())
    return script


ABOUT = {
    LogKind.REGISTERED: ("box",),
    LogKind.BOX_GONE: ("box", "text"),
    LogKind.STANDING: ("device", "box", "text"),
    LogKind.CHECKED: ("device", "box", "text"),
    LogKind.QUEUED: ("request", "user", "text"),
    LogKind.REFUSED: ("request", "user", "text"),
    LogKind.CANCELLED: ("request", "user", "text"),
    LogKind.GRANTED: ("device", "box", "lease", "request", "user", "number"),
    LogKind.RESTORED: ("device", "box", "lease", "user", "number"),
    LogKind.ACTIVE: ("device", "box", "lease", "request", "user", "number"),
    LogKind.STALE_TOKEN: ("device", "box", "lease", "user", "number", "text"),
    LogKind.ENDING: ("device", "box", "lease", "user", "number", "text"),
    LogKind.ENDED: ("device", "box", "lease", "user", "number", "text"),
}


def test_every_kind_of_event_happens_and_says_whom_it_is_about() -> None:
    log = story().log
    assert set(ABOUT) == set(LogKind)
    for kind, fields in ABOUT.items():
        events = [event for event in log if event.kind == kind]
        assert events, kind
        for event in events:
            assert [field for field in fields if not getattr(event, field)] == [], event


def test_events_are_counted_by_kind_and_numbered_without_gaps() -> None:
    script = story()
    assert [event.seq for event in script.log] == list(range(1, len(script.log) + 1))
    counted = script.state.numbers(script.now).events
    assert {kind: count for kind, count in counted.items() if count} == {
        kind: script.kinds().count(kind) for kind in set(script.kinds())
    }
