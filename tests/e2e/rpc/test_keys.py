"""Keys: who is let in, who is not and is told why, on real servers and trackers."""

import threading
import time

import numpy as np
import pytest

from compiler.runtime.core import ndarray as nd
from rpc_server import errors
from rpc_server.box.server import Server
from rpc_server.client.connect import box_status, connect, open_session
from rpc_server.client.connection import Connection
from rpc_server.wire.curve import keys_for
from rpc_server.wire.keys import KeyRing, KeyRole
from rpc_server.wire.messages import OpenSession
from tests.kit.farm.keyed import Party
from tests.kit.farm.tracker import CALM
from tracker.client import connect_tracker
from tracker.errors import NoDeviceError
from tracker.server import Tracker


@pytest.fixture(scope="module")
def parties(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    names = ("box", "tracker", "ann", "bob", "root", "mallory")
    return {name: Party(folder, name) for name in names}


@pytest.fixture(scope="module")
def server(parties):
    box = parties["box"]
    box.lets_in(parties["ann"], KeyRole.CLIENT)
    with Server(port=0, sessions=4, warm=2, keys=box.folder) as running:
        for party in parties.values():
            party.knows(box, running.port)
        yield running


@pytest.fixture(scope="module")
def farm(parties):
    """A tracker and one box, all with keys. The box itself authorizes nobody: the tracker says whom it lends to."""
    tracker, box = parties["tracker"], parties["box"]
    lent = Party(tracker.ring.folder.parent, "lent")
    tracker.lets_in(lent, KeyRole.BOX)
    tracker.lets_in(parties["ann"], KeyRole.CLIENT)
    tracker.lets_in(parties["bob"], KeyRole.CLIENT)
    tracker.lets_in(parties["root"], KeyRole.ADMIN)
    with Tracker(port=0, keys=tracker.folder, timing=CALM) as running:
        for party in (*parties.values(), lent):
            party.knows(tracker, running.port)
        address = ("127.0.0.1", running.port)
        with Server(port=0, warm=2, sessions=2, keys=lent.folder, tracker_addr=address, key="k", name="lent"):
            with session(address, parties["root"]) as admin:
                wait_until(lambda: admin.devices())
            assert box.ring.folder != lent.ring.folder
            yield address


def session(address, party, timeout_s=60):
    return connect_tracker(*address, keys=party.ring, timeout_s=timeout_s)


def wait_until(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)


# --- one server --------------------------------------------------------------------------------------------


def test_an_authorized_client_works(server, parties):
    with connect("127.0.0.1", server.port, keys=parties["ann"].ring) as remote:
        x = np.arange(300_000, dtype="float32")
        np.testing.assert_array_equal(nd.array(x, remote.cpu()).numpy(), x)
        assert remote._channel.lane is not None
    with open_session("127.0.0.1", server.port, keys=parties["ann"].ring, call_timeout=60.0) as remote:
        np.testing.assert_array_equal(nd.array(x, remote.cpu()).numpy(), x)  # through the supervisor, encrypted


def test_an_unlisted_key_is_turned_away(server, parties):
    with pytest.raises(errors.ConnectError, match="does not know this machine's key") as error:
        connect("127.0.0.1", server.port, keys=parties["mallory"].ring)
    assert "tunefarm keys show" in error.value.hint


def test_a_plain_text_peer_is_turned_away(server):
    with pytest.raises(errors.ConnectError, match="asks for keys"):
        connect("127.0.0.1", server.port)


def test_another_servers_key_is_not_taken(server, parties, tmp_path):
    ring = KeyRing(tmp_path)
    ring.create_identity("ann2")
    ring.trust(f"127.0.0.1:{server.port}", parties["mallory"].public)
    with pytest.raises(errors.ConnectError, match="does not prove to hold the key"):
        connect("127.0.0.1", server.port, keys=ring)


def test_a_client_without_a_key_is_told(server, parties, tmp_path):
    ring = KeyRing(tmp_path)
    ring.trust(f"127.0.0.1:{server.port}", parties["box"].public)
    with pytest.raises(errors.KeyFileError, match="this machine has none"):
        connect("127.0.0.1", server.port, keys=ring)


def test_a_box_may_not_open_sessions(server, parties):
    box = parties["box"]
    box.lets_in(parties["bob"], KeyRole.BOX)
    assert box_status("127.0.0.1", server.port, keys=parties["bob"].ring).box
    with pytest.raises(errors.NotPermitted, match="role box"):
        connect("127.0.0.1", server.port, keys=parties["bob"].ring)
    box.ring.revoke("bob")


def test_revoking_a_key_ends_its_open_sessions_and_no_other(server, parties):
    box, bob = parties["box"], parties["bob"]
    box.lets_in(bob, KeyRole.CLIENT)
    x = np.arange(1000, dtype="float32")
    with (
        connect("127.0.0.1", server.port, keys=parties["ann"].ring) as ann,
        connect("127.0.0.1", server.port, keys=bob.ring) as direct,
        open_session("127.0.0.1", server.port, keys=bob.ring, call_timeout=60.0) as through_the_server,
    ):
        assert direct._channel.lane is not None
        box.ring.revoke("bob")
        for remote in (direct, through_the_server):
            wait_until(lambda remote=remote: not usable(remote))
            with pytest.raises(errors.SessionClosed, match="the key of bob is not authorized any more"):
                nd.array(x, remote.cpu()).numpy()
        np.testing.assert_array_equal(nd.array(x, ann.cpu()).numpy(), x)
    wait_until(lambda: not box_status("127.0.0.1", server.port, keys=parties["ann"].ring).sessions)


def usable(remote):
    try:
        remote.cpu().sync()
    except errors.RPCError:
        return False
    return True


def test_a_revoked_key_does_nothing_more(server, parties):
    box, root = parties["box"], parties["root"]
    box.lets_in(root, KeyRole.CLIENT)
    keys = keys_for(root.ring, f"127.0.0.1:{server.port}")
    connection = Connection("127.0.0.1", server.port, keys=keys)  # before it is revoked
    box.ring.revoke(root.public)
    with pytest.raises(errors.NotPermitted, match="not authorized any more"):
        connection.request(OpenSession("root"), timeout_s=60)
    connection.close()
    with pytest.raises(errors.ConnectError):
        connect("127.0.0.1", server.port, keys=root.ring)


def test_other_interfaces_need_keys(parties):
    with pytest.raises(errors.ServerStartError, match=r"refusing to listen on 0\.0\.0\.0"):
        Server("0.0.0.0", port=0, silent=True)
    with Server("0.0.0.0", port=0, silent=True, keys=parties["box"].folder) as running:
        assert running.port


# --- a farm ------------------------------------------------------------------------------------------------


def test_the_tracker_lends_to_an_authorized_client(farm, parties):
    with session(farm, parties["ann"]) as tracker, tracker.request("k", wait_s=60) as remote:
        a = nd.array(np.ones(8, "float32"), remote.cpu())
        np.testing.assert_array_equal(a.numpy(), 1.0)
        (device,) = [d for d in tracker.devices() if d.user]
        assert device.user == "ann"  # as authorized, whatever the client calls itself


def test_a_lease_token_is_no_use_to_another_key(farm, parties):
    with session(farm, parties["ann"]) as tracker, tracker.lease("k", wait_s=60) as lease:
        stranger = {"keys": parties["mallory"].ring, "server_key": lease.box_key}
        with pytest.raises(errors.ConnectError, match="does not know this machine's key"):
            open_session(lease.host, lease.port, token=lease.token, **stranger)
        known = {"keys": parties["bob"].ring, "server_key": lease.box_key}  # to the tracker; the lease is not his
        with pytest.raises(errors.ConnectError, match="does not know this machine's key"):
            open_session(lease.host, lease.port, token=lease.token, **known)
        lease.open_session().close()


def test_a_token_of_a_lease_that_ended_is_refused(farm, parties):
    with session(farm, parties["ann"]) as tracker:
        old = tracker.lease("k", wait_s=60)
        token, place = old.token, (old.host, old.port, old.box_key)
        old.release()
        with tracker.lease("k", wait_s=60), pytest.raises(errors.LeaseRefused):
            open_session(*place[:2], token=token, keys=parties["ann"].ring, server_key=place[2])


def test_an_unlisted_client_gets_nothing_from_the_tracker(farm, parties):
    with pytest.raises(errors.ConnectError, match="does not let this machine in"):
        session(farm, parties["mallory"], timeout_s=5)  # it is not told: nothing but the time ends the attempt
    with pytest.raises(errors.ConnectError, match="asks for keys"):
        connect_tracker(*farm)


def test_only_an_admin_drains(farm, parties):
    with (
        session(farm, parties["bob"]) as tracker,
        pytest.raises(errors.NotPermitted, match="bob is a client") as raised,
    ):
        tracker.drain("lent")
    assert "tunefarm keys authorize KEY --role admin" in str(raised.value.hint)
    with session(farm, parties["root"]) as tracker:
        assert tracker.drain("lent")
        assert tracker.undrain("lent")


def test_a_forged_box_name_is_refused(farm, parties):
    tracker = parties["tracker"]
    forger = Party(tracker.ring.folder.parent, "forger")
    tracker.lets_in(forger, KeyRole.BOX)
    forger.knows(tracker, farm[1])
    with Server(port=0, keys=forger.folder, tracker_addr=farm, key="k", name="lent", silent=True):
        time.sleep(1.5)
        with session(farm, parties["root"]) as admin:
            (device,) = admin.devices()
            assert device.box == "lent"
            with session(farm, parties["ann"]) as ann, ann.lease("k", wait_s=60) as lease:
                assert lease.box_key != forger.public
    with session(farm, parties["root"]) as admin:
        assert all(d.address.startswith("127.0.0.1") for d in admin.devices())


def test_a_client_does_not_lend_devices(farm, parties):
    ann = parties["ann"]
    with Server(port=0, keys=ann.folder, tracker_addr=farm, key="k", name="ann", silent=True):
        time.sleep(1.0)
        with session(farm, parties["root"]) as admin:
            assert [d.box for d in admin.devices()] == ["lent"]


def test_revoking_a_key_at_the_tracker_takes_its_leases_back(farm, parties):
    """The device goes to the next in the queue; a client of that key that waits is refused."""
    tracker, bob, ann = parties["tracker"], parties["bob"], parties["ann"]
    try:
        with session(farm, bob) as bobs, session(farm, ann) as anns, session(farm, bob) as waiting:
            lease = bobs.lease("k", wait_s=60)
            lost = []
            lease.on_lost(lost.append)
            remote = lease.open_session()
            remote.cpu().sync()
            refused = []
            thread = threading.Thread(target=lambda: refused.append(refusal(waiting)))
            thread.start()
            wait_until(lambda: anns.summary()["queue_info"]["k"]["pending"] == 1)
            tracker.ring.revoke("bob")
            with anns.lease("k", wait_s=60) as hers:
                assert hers.device == lease.device
            wait_until(lambda: lost)
            assert lost == ["the key of bob is not authorized any more"]
            thread.join()
            assert refused[0].message.endswith("is not authorized any more")  # told, or refused when it asked again
            with pytest.raises(errors.SessionClosed, match="the key of bob is not authorized any more"):
                remote.cpu().sync()
            remote.close()
            with pytest.raises(errors.NotPermitted):
                bobs.lease("k", wait_s=60)
    finally:
        tracker.lets_in(bob, KeyRole.CLIENT)


def test_revoking_a_boxs_key_turns_it_away(farm, parties):
    """Its leases end, on it as well, and their clients are told; authorized again, it is back."""
    tracker, ann = parties["tracker"], parties["ann"]
    late = Party(tracker.ring.folder.parent, "late")
    tracker.lets_in(late, KeyRole.BOX)
    late.knows(tracker, farm[1])
    with (
        Server(port=0, keys=late.folder, tracker_addr=farm, key="late", name="late", silent=True),
        session(farm, ann) as anns,
    ):
        lease = anns.lease("late", wait_s=60)
        lost = []
        lease.on_lost(lost.append)
        remote = lease.open_session()
        remote.cpu().sync()
        tracker.ring.revoke("late")
        wait_until(lambda: lost)
        assert lost == ["box late is gone: the key of late is not authorized any more"]
        wait_until(lambda: ended(remote))
        with pytest.raises(errors.SessionClosed, match="the key of late is not authorized any more"):
            remote.cpu().sync()
        remote.close()
        assert [d.state for d in anns.devices() if d.box == "late"] == ["gone"]
        with pytest.raises(NoDeviceError, match="no registered device matches"):
            anns.lease("late", wait_s=0)
        tracker.lets_in(late, KeyRole.BOX)
        with anns.lease("late", wait_s=60) as again:
            again.open_session().close()
    tracker.ring.revoke("late")


def ended(session):
    try:
        session.cpu().sync()
    except errors.SessionClosed:
        return True
    return False


def refusal(session):
    try:
        session.lease("k", wait_s=60).release()
    except errors.RPCError as error:
        return error
