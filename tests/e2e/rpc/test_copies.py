"""Arrays between client and box: whole whichever way they go, and no harm when an end dies on the way."""

import contextlib
import os
import signal
import socket
import time
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from compiler.runtime.core import ndarray as nd
from rpc_server.box.server import Server
from rpc_server.client.connect import open_session
from rpc_server.client.connection import Connection
from rpc_server.errors import ExecutorCrashed, SessionClosed
from rpc_server.wire.lane import Lane
from rpc_server.wire.messages import CHUNK, OpenSession, ReadMemory, SessionOpened, SyncDevice

NBYTES = 5 * CHUNK + 12
TOLD = (ExecutorCrashed, SessionClosed)


@pytest.fixture(scope="module")
def server():
    with Server(port=0, sessions=3, warm=2) as running:
        yield running


@pytest.fixture(params=["lane", "supervisor"])
def remote(server, request):
    with open_session("127.0.0.1", server.port, wait_s=60) as session:
        if request.param == "supervisor":
            session.call_timeout = 600.0
        yield session


def numbers(seed):
    return np.random.default_rng(seed).integers(0, 1 << 30, NBYTES // 4, dtype="int32")


def test_copies_are_whole_and_stay_as_they_are(remote):
    values = [numbers(seed) for seed in range(4)]
    array = nd.empty(values[0].shape, "int32", remote.cpu())
    results = [array.copyfrom(value).numpy() for value in values]
    for value, result in zip(values, results):
        np.testing.assert_array_equal(result, value)
    assert results[0].flags.writeable


def test_results_that_were_dropped_make_room_for_others(remote):
    array = nd.empty((NBYTES // 4,), "int32", remote.cpu())
    places = set()
    for seed in range(6):
        value = numbers(seed)
        result = array.copyfrom(value).numpy()
        np.testing.assert_array_equal(result, value)
        places.add(result.ctypes.data)
    assert len(places) <= 2  # in turns: one is still held while the next comes


def test_other_types_land_in_memory_used_before(remote):
    for dtype in ("uint8", "float64", "bfloat16", "bool"):
        data = np.arange(1 << 20) % 2
        array = nd.array(data.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype), remote.cpu())
        np.testing.assert_array_equal(array.numpy().astype("int64"), data)


def shared_memories(pid):
    return Path(f"/proc/{pid}/maps").read_text().count("tunefarm-window")


def fails(copy):
    try:
        copy()
    except TOLD:
        return True
    return False


def until(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_an_executor_killed_amid_a_copy(server, remote):
    array = nd.array(numbers(0), remote.cpu())
    asked = [remote.submit(ReadMemory(array.handle, 0, CHUNK)) for _ in range(6)]
    asked[0].wait()
    os.kill(remote.executor_pid, signal.SIGKILL)
    until(lambda: not remote.is_open or fails(array.numpy))  # what was on its way may still arrive
    with contextlib.suppress(*TOLD):
        for pending in asked[1:]:
            pending.wait()
    with open_session("127.0.0.1", server.port, wait_s=60) as other:
        np.testing.assert_array_equal(nd.array(numbers(1), other.cpu()).numpy(), numbers(1))


def test_nothing_is_kept_of_an_executor_that_is_gone(server):
    """The supervisor shares memory with those that live: two spares, once the sessions are over."""
    for _ in range(2):
        with open_session("127.0.0.1", server.port, wait_s=60, call_timeout=600.0) as session:
            nd.array(numbers(0), session.cpu()).numpy()
            os.kill(session.executor_pid, signal.SIGKILL)
            with pytest.raises(TOLD):
                session.cpu().sync()
    until(lambda: shared_memories(server.pid) <= 2)


def test_a_client_whose_memory_could_shrink_is_turned_away(server):
    connection = Connection("127.0.0.1", server.port)
    with contextlib.closing(connection), socket.socket(socket.AF_UNIX) as sock:
        reply = connection.request(OpenSession("test", wait_s=60.0), timeout_s=60).body
        assert isinstance(reply, SessionOpened)
        sock.settimeout(60)
        sock.connect("\0" + reply.lane)
        fd = os.memfd_create("shrinks")
        socket.send_fds(sock, [reply.lane_token], [fd])
        os.close(fd)
        assert sock.recv(1) == b""
        lane = Lane(reply.lane, reply.lane_token)
        lane.wait(lane.send(SyncDevice("cpu", 0)))
        lane.close()
