"""Cancelling what a session runs: its executor is killed, nobody else's; the session says so."""

import numpy as np
import pytest

from compiler.runtime.core import ndarray as nd
from rpc_server.box.server import Server
from rpc_server.client.connect import box_status, open_session
from rpc_server.client.connection import Connection
from rpc_server.errors import Cancelled, SessionClosed
from rpc_server.wire.messages import CancelCalls
from rpc_server.wire.trial_messages import EvaluatorOptions, MeasureRequest
from tests.kit.farm.rpc_kernels import kernel
from tests.kit.process_tree import once_it_computes


@pytest.fixture(scope="module")
def server():
    with Server(port=0, sessions=2, warm=2, silent=True) as running:
        yield running


def load(remote, kind):
    remote.upload(kernel(kind).to_bytes(), "k.tunefarm")
    return remote.load_module("k.tunefarm")["kernel"], nd.array(np.zeros(1024, np.float32), remote.cpu())


@pytest.mark.parametrize("deadline", [None, 300.0], ids=["on the lane", "through the supervisor"])
def test_a_call_under_way_is_cancelled_with_those_behind_it(server, remote, deadline):
    with open_session("127.0.0.1", server.port, wait_s=60) as other:
        function, a = load(other, "add_one")
        remote.call_timeout = deadline
        endless, b = load(remote, "forever")
        calls = [endless.submit(b, b) for _ in range(3)]
        calls[0].cancel()
        for call in calls:
            with pytest.raises((Cancelled, SessionClosed), match="cancelled"):
                call.result()
        with pytest.raises((Cancelled, SessionClosed), match="cancelled"):
            b.numpy()
        function(a, a)  # the other session noticed nothing
        np.testing.assert_array_equal(a.numpy(), 1)
    assert box_status("127.0.0.1", server.port).crashes == 0


@pytest.mark.parametrize("deadline", [None, 300.0], ids=["on the lane", "through the supervisor"])
def test_another_thread_cancels_a_call_that_is_waited_for(remote, deadline):
    remote.call_timeout = deadline
    endless, b = load(remote, "forever")
    with once_it_computes(remote.executor_pid, remote.cancel), pytest.raises(Cancelled, match="cancelled"):
        endless(b, b)


def test_a_session_that_measures_goes_on(remote):
    good, bad = kernel("add_one"), kernel("forever")
    assert remote.measure(MeasureRequest(good.digest, options=EvaluatorOptions(number=1)), [good]).ok
    with once_it_computes(remote.executor_pid, remote.cancel), pytest.raises(Cancelled, match="measurement"):
        remote.measure(MeasureRequest(bad.digest, timeout_s=600.0), [bad])
    assert remote.measure(MeasureRequest(good.digest, options=EvaluatorOptions(number=1)), [good]).ok


def test_a_call_that_is_done_is_not_cancelled(remote):
    function, a = load(remote, "add_one")
    call = function.submit(a, a)
    call.result()
    call.cancel()
    np.testing.assert_array_equal(a.numpy(), 1)


def test_only_the_sessions_own_client_cancels(server, remote):
    function, a = load(remote, "add_one")
    stranger = Connection("127.0.0.1", server.port)
    try:
        for session in range(200):
            for secret in (b"", bytes(32)):
                with pytest.raises(SessionClosed):
                    stranger.request(CancelCalls(session, secret), timeout_s=60)
    finally:
        stranger.close()
    function(a, a)


def test_nothing_to_cancel_in_a_closed_session(server):
    session = open_session("127.0.0.1", server.port, wait_s=60)
    session.close()
    with pytest.raises(SessionClosed):
        session.cancel()
