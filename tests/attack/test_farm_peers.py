"""A hostile box or client at the tracker: it speaks for itself alone, and gets no more than its share."""

from __future__ import annotations

import msgspec
import pytest

from rpc_server.wire import tracker_messages as tm
from rpc_server.wire.tracker_records import HeldLease
from tests.kit.farm.tracker_script import Script, ask, hello, lent
from tracker.requests import MAX_PER_HOLDER


def test_a_box_cannot_claim_another_boxs_lease():
    script = Script()
    script(hello("a"))
    grant = lent(script)
    claim = HeldLease(lease=grant.lease, slot=0, token="99-forged", user="eve", client="eve")
    sent = script(hello("evil", key="other", leases=(claim,)))
    assert ("box-evil", tm.RevokeLease(grant.lease, "the tracker does not know this lease")) in sent
    assert script.device("evil/0").lease is None
    mine = script.device("a/0")
    assert (mine.lease, mine.user) == (grant.lease, "ann")
    assert script.state.farm.leases[grant.lease].token == grant.token


@pytest.mark.parametrize(
    "event", [lambda lease: tm.LeaseOver("box-evil", lease), lambda lease: tm.LeaseDeclined("box-evil", lease, "no")]
)
def test_a_box_cannot_end_another_boxs_lease(event):
    script = Script()
    script(hello("a"))
    script(hello("evil", key="other"))
    grant = lent(script)
    script(event(grant.lease))
    assert script.device("a/0").lease == grant.lease


def test_a_box_cannot_doubt_or_clear_anothers_device():
    script = Script()
    script(hello("a"))
    script(hello("evil", key="other"))
    script(tm.Admin("quarantine", "a"))
    script(tm.CheckResult("box-evil", 0, True))
    assert script.state_of("a/0") == "quarantined"
    script(tm.Admin("unquarantine", "a"))
    script(tm.SuspectDevice("box-evil", 0, "because"))
    assert script.state_of("a/0") == "ready"


def test_numbers_of_one_box_are_not_the_farms():
    """A box that has seen 2**52 tokens spoils its own numbers; the others' grow by one."""
    script = Script()
    script(hello("evil", key="other", high=2**52))
    script(hello("a"))
    assert lent(script).token == "1-s1"
    forged = HeldLease(lease="x", slot=0, token="999999999999999-x", user="u", client="c")
    script(hello("evil", key="other", leases=(forged,)))
    assert script.state.farm.number == 1
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(
            msgspec.msgpack.encode(
                {"type": "BoxHello", "peer": "p", "box": "b", "address": ":1", "devices": [], "high": 2**62}
            ),
            type=tm.BoxHello,
        )
    assert tm.to_tracker is not None


def keyed(box: str, public: str, **more):
    return msgspec.structs.replace(hello(box, **more), public=public)


def test_another_name_does_not_end_a_quarantine():
    script = Script()
    script(keyed("evil", "tfKEY"))
    script(tm.Admin("quarantine", "evil", "wrong results"))
    script(tm.BoxBye("box-evil"))
    sent = script(keyed("evil:2", "tfKEY", peer="box-new"))
    assert script.state_of("evil:2/0") == "quarantined"
    assert "wrong results" in script.device("evil:2/0").reason
    script(ask())
    assert not any(isinstance(message, tm.GrantLease) for _, message in sent)
    script(keyed("honest", "tfOTHER"))
    assert script.state_of("honest/0") in ("ready", "leased")


def test_a_quarantine_outlives_the_box_being_forgotten():
    script = Script(forget_s=10.0)
    script(keyed("evil", "tfKEY"))
    script(tm.Admin("quarantine", "evil", "wrong results"))
    script(tm.BoxBye("box-evil"))
    from tracker.state import Tick

    script(Tick(), 20.0)
    assert script.state.farm.boxes == {}
    script(keyed("evil", "tfKEY"))
    assert script.state_of("evil/0") == "quarantined"


def test_an_admin_ends_it():
    script = Script()
    script(keyed("a", "tfKEY"))
    script(tm.Admin("quarantine", "a", "look at it"))
    script(tm.Admin("unquarantine", "a"))
    script(keyed("a:2", "tfKEY", peer="p2"))
    assert script.state_of("a:2/0") == "ready"


def test_one_key_cannot_fill_the_queue():
    """However many peers it pretends to be."""
    script = Script()
    refused = 0
    for number in range(MAX_PER_HOLDER + 50):
        request = msgspec.structs.replace(ask(f"r{number}", f"peer{number}"), public="tfEVE")
        refused += any(isinstance(message, tm.Refused) for _, message in script(request))
    assert refused == 50
    sent = script(msgspec.structs.replace(ask("mine", "me"), public="tfANN"))
    assert not any(isinstance(message, tm.Refused) for _, message in sent)


def test_words_are_checked():
    script = Script()
    ((_, refused),) = script(hello("a\x1b[31m"))
    assert isinstance(refused, tm.BoxRefused)
