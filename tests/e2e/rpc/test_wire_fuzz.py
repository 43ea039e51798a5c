"""Mutated and random messages against real processes: a server, a tracker, and an executor's lane.

The messages are recorded from honest use and then damaged. While that goes on an honest client works; afterwards the
process is the same one, of about the same size, and serves newcomers. FUZZ_CASES sets how many messages are thrown at
each; a failure names its seed.
"""

from __future__ import annotations

import contextlib
import random
import socket
import threading
import time

import pytest
import zmq

from rpc_server.box.server import Server
from rpc_server.client import connection
from rpc_server.client.connect import open_session
from rpc_server.client.connection import Connection
from rpc_server.errors import RPCError
from rpc_server.wire import lane
from rpc_server.wire.messages import OpenSession, SessionOpened
from rpc_server.wire.stream import FrameStream
from tests.kit.farm.damage import CASES, GROWTH, SEED, Honest, damaged, recorded, unharmed, use, use_more
from tests.kit.process_tree import resident
from tracker import channel
from tracker.client import connect_tracker
from tracker.errors import UnknownDeviceError
from tracker.farm_parts import Timing
from tracker.server import Tracker


@pytest.fixture(scope="module")
def server():
    with Server(port=0, sessions=3, warm=2, silent=True) as running:
        yield running


# --- the three ---------------------------------------------------------------------------------------------


def test_a_server(server, monkeypatch):
    samples = recorded(monkeypatch, connection, "send_frames", lambda sock, frames: frames)
    with open_session("127.0.0.1", server.port, wait_s=60, call_timeout=60) as session:
        use_more(session)
    monkeypatch.undo()
    assert len(samples) > 10

    def newcomer():
        with open_session("127.0.0.1", server.port, wait_s=60) as session:
            use(session)

    with open_session("127.0.0.1", server.port, wait_s=60, call_timeout=60) as session:
        unharmed(server.pid, server.port, samples, lambda: use(session), newcomer)


def test_a_tracker(monkeypatch):
    # Damaged requests may be good ones: what they get comes back as soon as their sender is missed.
    with Tracker(port=0, silent=True, timing=Timing(late_s=60.0, box_timeout_s=60.0, grace_s=10.0)) as tracker:
        address = ("127.0.0.1", tracker.port)
        with Server(port=0, silent=True, tracker_addr=address, key="cpu", name="box"):

            def newcomer():
                with (
                    connect_tracker(*address, user="new", timeout_s=60) as session,
                    session.request("cpu", wait_s=60) as remote,
                ):
                    remote.cpu().sync()

            samples = recorded(monkeypatch, channel.Channel, "_send", as_frames)
            newcomer()
            with connect_tracker(*address, user="admin", timeout_s=60) as session:
                session.devices()
                session.queue()
                with pytest.raises(UnknownDeviceError):  # who may take a device out is for keys to say, not for this
                    session.drain("nobody")
            monkeypatch.undo()
            assert len(samples) > 5
            samples.append(first_words_of_a_box())
            with connect_tracker(*address, user="ann", timeout_s=60) as session:
                unharmed(tracker.pid, tracker.port, samples, session.devices, newcomer)


def as_frames(_channel, message, kind, request_id=0):
    return channel.to_tracker.encode(message, kind, request_id=request_id)


def first_words_of_a_box() -> list[bytes]:
    """Return a box's first messages, as a listener hears them that never answers."""
    context = zmq.Context()
    try:
        with context.socket(zmq.ROUTER) as listener:
            at = listener.bind_to_random_port("tcp://127.0.0.1")
            with Server(port=0, silent=True, tracker_addr=("127.0.0.1", at), key="other", name="forged"):
                assert listener.poll(300_000)
                return listener.recv_multipart()[1:]
    finally:
        context.destroy(linger=0)


def test_the_lane(server, monkeypatch):
    samples = recorded(monkeypatch, lane.FrameStream, "put", lambda stream, frames: frames)
    with open_session("127.0.0.1", server.port, wait_s=60) as session:
        use(session)
    monkeypatch.undo()
    assert len(samples) > 5
    rng = random.Random(SEED)
    before = resident(server.pid)
    with open_session("127.0.0.1", server.port, wait_s=60) as session, Honest(lambda: use(session)) as honest:
        for _ in range(max(4, CASES // 150)):
            fuzz_a_lane(server.port, samples, rng)
    honest.check()
    with open_session("127.0.0.1", server.port, wait_s=60) as session:
        use(session)
    assert resident(server.pid) - before < GROWTH


def fuzz_a_lane(port: int, samples: list[list[bytes]], rng: random.Random) -> None:
    """One session whose client talks nonsense to its executor. Whatever comes of it, the box answers for it in time."""
    box = Connection("127.0.0.1", port)
    try:
        opened = box.request(OpenSession("fuzz", wait_s=60), timeout_s=60).body
        assert isinstance(opened, SessionOpened)
        with socket.socket(socket.AF_UNIX) as sock, contextlib.suppress(OSError):
            sock.settimeout(5)
            sock.connect("\0" + opened.lane)
            sock.sendall(opened.lane_token)
            threading.Thread(target=drain, args=(sock.dup(),), daemon=True).start()
            stream = FrameStream(sock)
            for _ in range(100):
                frames = damaged(rng, rng.choice(samples))
                if frames and rng.random() < 0.95:
                    stream.put(frames)
                else:
                    sock.sendall(rng.randbytes(rng.randrange(1, 200)))
                    break
                with contextlib.suppress(Exception):
                    stream.flush()
            time.sleep(0.02)
    finally:
        with contextlib.suppress(RPCError):
            box.request(OpenSession("fuzz"), timeout_s=5)  # one too many: refused, or the session is over
        box.close()


def drain(sock: socket.socket) -> None:
    with sock, contextlib.suppress(OSError):
        while sock.recv(1 << 16):
            pass
