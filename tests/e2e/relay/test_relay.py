"""Boxes that can only dial out, used through a relay: real processes, nothing told to the client but its lease."""

import contextlib
import os
import subprocess
import sys

import numpy as np
import pytest

from compiler.runtime.core import ndarray as nd
from rpc_server import errors
from rpc_server.box.server import Server
from rpc_server.client.connect import box_status, open_session
from rpc_server.farm_link.leases import LeaseTable
from rpc_server.relay.agent import AgentOptions
from rpc_server.relay.link import RelayLink
from rpc_server.relay.server import Relay
from rpc_server.wire.keys import KeyRole
from rpc_server.wire.trial_messages import EvaluatorOptions, MeasureRequest
from tests.kit.farm.keyed import Party
from tests.kit.farm.network import other_network
from tests.kit.farm.relay import PATIENCE_S, relay_farm, state, until
from tests.kit.farm.rpc_kernels import kernel
from tests.kit.farm.tracker import CALM
from tests.kit.places import ROOT
from tests.kit.process_tree import once_it_computes
from tracker.client import connect_tracker
from tracker.server import Tracker

BIG = 16 << 20  # floats: 64 MiB


@pytest.fixture(scope="module")
def farm():
    with relay_farm(CALM) as running:  # nobody dies
        yield running


@pytest.fixture
def remote(farm):
    with farm.connect() as session, session.request("cpu", wait_s=60) as found:
        yield found


def load(remote, kind):
    remote.upload(kernel(kind).to_bytes(), "k.tunefarm")
    return remote.load_module("k.tunefarm")["kernel"]


def arrays(remote, count=2):
    return [nd.array(np.full(1024, i, np.float32), remote.cpu()) for i in range(count)]


def test_calls_and_trials(remote):
    add_one = load(remote, "add_one")
    a, b = arrays(remote)
    add_one(a, b)
    np.testing.assert_array_equal(b.numpy(), 1.0)
    artifact = kernel("add_one")
    assert remote.measure(MeasureRequest(artifact.digest, options=EvaluatorOptions(number=1)), [artifact]).ok


def test_large_arrays_both_ways(remote):
    data = np.random.default_rng(3).random(BIG, dtype=np.float32)
    there = nd.array(data, remote.cpu())
    np.testing.assert_array_equal(there.numpy(), data)


def test_calls_sent_ahead(remote):
    add_one = load(remote, "add_one")
    a, b = arrays(remote)
    calls = [add_one.submit(*pair) for _ in range(500) for pair in ((a, b), (b, a))]
    assert calls[-1].result() is None
    np.testing.assert_array_equal(a.numpy(), 1000.0)


def test_the_executor_is_not_talked_to_past_the_relay(remote):
    assert remote._opened.lane, "the box offers it"
    assert remote._channel.lane is None


def test_a_crash_is_reported(farm):
    with farm.connect() as session, session.request("cpu", wait_s=60) as remote:
        with pytest.raises(errors.ExecutorCrashed, match="SIGSEGV while running call of 'kernel'") as error:
            load(remote, "segfault")(*arrays(remote))
        assert "Segmentation fault" in error.value.detail["stderr"]


def test_a_call_is_cancelled_over_a_line_of_its_own(farm):
    with farm.connect() as session, session.request("cpu", wait_s=60) as remote:
        late = load(remote, "forever").submit(*arrays(remote))
        with once_it_computes(remote.executor_pid, remote.cancel), pytest.raises(errors.Cancelled):
            late.result()


def test_the_address_shows_the_relay_and_not_the_pass(farm, remote):
    with farm.connect("looker") as session:
        (device,) = session.devices()
        assert device.address.endswith(f"@127.0.0.1:{farm.relay.port}")
    assert remote.address == f"relay 127.0.0.1:{farm.relay.port}"


def test_the_way_ends_with_the_lease(farm):
    with farm.connect() as session:
        lease = session.lease("cpu", wait_s=60)
        place = (lease.host, lease.port)
        assert box_status(*place).box == "nat"
        remote = lease.open_session()
        lease.release()
        until(lambda: state(session) == "ready", "the device is back")
        with pytest.raises(errors.ConnectError, match="the relay knows no such lease"):
            box_status(*place)
        with pytest.raises(errors.SessionClosed):
            remote.cpu().sync()
        remote.close()


def test_a_made_up_pass_leads_nowhere(farm):
    with pytest.raises(errors.ConnectError, match="the relay knows no such lease"):
        box_status("ab" * 32 + "@127.0.0.1", farm.relay.port)
    with pytest.raises(errors.ConnectError, match="not a pass of a relay"):
        box_status("ab@127.0.0.1", farm.relay.port)


def test_what_is_no_relay(farm):
    with pytest.raises(errors.ConnectError, match=r"no tunefarm relay|does not answer"):
        box_status("ab" * 32 + "@127.0.0.1", farm.tracker.port, connect_timeout=5)


# --- keys ----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def keyed_farm(folder, host, start_box):
    """Parties by name, the tracker's address and the relay, all on `host`. The relay has the tracker's keys."""
    parties = {name: Party(folder, name) for name in ("lab", "nat", "ann", "bob", "mallory")}
    lab = parties["lab"]
    lab.ring.authorize(parties["nat"].public, KeyRole.BOX, "nat")
    lab.ring.authorize(parties["ann"].public, KeyRole.CLIENT, "ann")
    lab.ring.authorize(parties["bob"].public, KeyRole.CLIENT, "bob")
    with (
        Tracker(host, port=0, keys=lab.folder, silent=True, timing=CALM) as tracker,
        Relay(host, keys=lab.folder, silent=True) as relay,
    ):
        for party in parties.values():
            party.ring.trust(f"{host}:{tracker.port}", lab.public)
        with start_box(tracker.port, relay.port, parties["nat"]):
            yield parties, (host, tracker.port), relay


BOX_CODE = """
import sys
from rpc_server.box.server import serve
from rpc_server.box.server_options import ServerOptions
tracker, relay, keys = sys.argv[1:]
serve(ServerOptions(port=0, tracker=tracker, relay=relay, keys=keys, key="cpu", name="nat", silent=True))
"""


@pytest.fixture(scope="module")
def apart(tmp_path_factory):
    """A box in a network of its own, where it listens on loopback: nothing here can connect to it."""
    with other_network() as network:

        @contextlib.contextmanager
        def start_box(tracker, relay, party):
            command = [*network.inside, sys.executable, "-c", BOX_CODE]
            places = [f"{network.here}:{tracker}", f"{network.here}:{relay}", party.folder]
            box = subprocess.Popen([*command, *places], env={**os.environ, "PYTHONPATH": str(ROOT)})
            try:
                yield
            finally:
                box.terminate()
                box.wait(PATIENCE_S)

        folder = tmp_path_factory.mktemp("apart")
        with keyed_farm(folder, network.here, start_box) as (parties, tracker, relay):
            with connect_tracker(*tracker, keys=parties["ann"].ring, timeout_s=60) as session:
                until(lambda: state(session) == "ready", "the box is ready")
            yield parties, tracker, relay


def test_a_box_behind_nat_is_used_end_to_end(apart):
    parties, tracker, _ = apart
    with (
        connect_tracker(*tracker, keys=parties["ann"].ring, timeout_s=60) as session,
        session.request("cpu", wait_s=60) as remote,
    ):
        a, b = arrays(remote)
        load(remote, "add_one")(a, b)
        np.testing.assert_array_equal(b.numpy(), 1.0)
        data = np.random.default_rng(3).random(BIG, dtype=np.float32)
        np.testing.assert_array_equal(nd.array(data, remote.cpu()).numpy(), data)


def test_a_pass_is_no_use_to_another_key(apart):
    """Encryption goes from the client to the box: the box turns the key away, whoever knows the pass."""
    parties, tracker, _ = apart
    with (
        connect_tracker(*tracker, keys=parties["ann"].ring, timeout_s=60) as session,
        session.lease("cpu", wait_s=60) as lease,
    ):
        assert lease.box_key == parties["nat"].public
        for name in ("mallory", "bob"):
            with pytest.raises(errors.ConnectError, match="does not know this machine's key"):
                open_session(
                    lease.host, lease.port, token=lease.token, keys=parties[name].ring, server_key=lease.box_key
                )
        with pytest.raises(errors.ConnectError, match="asks for keys"):
            open_session(lease.host, lease.port, token=lease.token)
        lease.open_session().close()


def test_a_pass_does_not_outlive_its_lease(apart):
    parties, tracker, _ = apart
    with connect_tracker(*tracker, keys=parties["ann"].ring, timeout_s=60) as session:
        old = session.lease("cpu", wait_s=60)
        place = {"host": old.host, "port": old.port, "keys": parties["ann"].ring, "server_key": old.box_key}
        old.release()

        def the_relay_refuses():
            """Whether the relay refuses: before the box has told it, the box does."""
            with pytest.raises((errors.ConnectError, errors.LeaseRefused)) as caught:
                open_session(token=old.token, **place)
            return isinstance(caught.value, errors.ConnectError) and "no such lease" in caught.value.message

        with session.lease("cpu", wait_s=60) as lease:
            until(the_relay_refuses, "the relay knows that the lease has ended")
            with pytest.raises(errors.RPCError):
                open_session(token=old.token, **{**place, "host": lease.host})
            lease.open_session().close()


def test_a_box_whose_key_is_revoked_is_served_no_more(apart, tmp_path):
    parties, tracker, relay = apart
    lab, late = parties["lab"], Party(tmp_path, "late")
    lab.ring.authorize(late.public, KeyRole.BOX, "late")
    options = AgentOptions(
        relay=(tracker[0], relay.port), listed="", local=("127.0.0.1", 1), box="late", keys=late.folder,
        server=lab.public,
    )  # fmt: skip
    leases = LeaseTable()
    with RelayLink(options, leases, "here", lambda: None) as link:
        until(lambda: not link.trouble(), "it is served")
        lab.ring.revoke("late")
        leases.grant("lease", "1-token", 1e9)  # something to tell the relay
        until(link.trouble, "it is not any more")
        assert "key" in link.trouble()


def test_a_relay_without_a_tracker_is_refused():
    with pytest.raises(errors.ServerStartError, match="needs a tracker, or a key"):
        Server(port=0, relay="127.0.0.1:1", silent=True)


@pytest.mark.parametrize("name", ["mallory", "ann"])
def test_only_boxes_register(apart, name):
    """A key that is not listed, and one with another role."""
    parties, tracker, relay = apart
    options = AgentOptions(
        relay=(tracker[0], relay.port), listed="", local=("127.0.0.1", 1), box="nat",
        keys=parties[name].folder, server=parties["lab"].public,
    )  # fmt: skip
    with RelayLink(options, LeaseTable(), "here", lambda: None) as link:
        until(lambda: "does not know this machine's key" in link.trouble(), link.trouble())
    plain = AgentOptions(relay=(tracker[0], relay.port), listed="", local=("127.0.0.1", 1), box="nat")
    with RelayLink(plain, LeaseTable(), "here", lambda: None) as link:
        until(lambda: "asks for keys" in link.trouble(), link.trouble())
