"""Mutated and random messages against real processes: a server, a tracker, and an executor's lane.

The messages are recorded from honest use and then damaged. While that goes on an honest client works; afterwards the
process is the same one, of about the same size, and serves newcomers. FUZZ_CASES sets how many messages are thrown at
each; a failure names its seed.
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
import struct
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import zmq
from rpc_kernels import kernel

from compiler.runtime import ndarray as nd
from rpc_server import connection, lane
from rpc_server.client import open_session
from rpc_server.connection import Connection
from rpc_server.errors import RPCError
from rpc_server.measure import EvaluatorOptions, MeasureRequest
from rpc_server.messages import OpenSession, SessionOpened
from rpc_server.server import Server
from rpc_server.stream import FrameStream
from tracker import channel
from tracker.client import connect_tracker
from tracker.errors import UnknownDeviceError
from tracker.farm import Timing
from tracker.server import Tracker

CASES = int(os.environ.get("FUZZ_CASES", "1500"))
SEED = int(os.environ.get("FUZZ_SEED", "20240"))
PER_CONNECTION = 25
GROWTH = 48 << 20
"""Bytes of resident memory a fuzzed process may grow by: what ZeroMQ and malloc keep, whatever the number of cases."""
_BOUNDARY = (0, 1, 0x7F, 0x80, 0xFF)


# --- damage ------------------------------------------------------------------------------------------------


def damaged(rng: random.Random, sample: list[bytes]) -> list[bytes]:
    """A message like `sample` with something wrong with it, or, one in ten, nothing."""
    frames = [bytearray(frame) for frame in sample]
    for _ in range(rng.choice((0, 1, 1, 1, 1, 2, 2, 3, 5, 9))):
        at = rng.randrange(len(frames))
        frame = frames[at]
        match rng.randrange(9):
            case 0 if frame:
                frame[rng.randrange(len(frame))] ^= 1 << rng.randrange(8)
            case 1 if frame:
                frame[rng.randrange(len(frame))] = rng.choice(_BOUNDARY)
            case 2:
                del frame[rng.randrange(len(frame) + 1) :]
            case 3:
                place = rng.randrange(len(frame) + 1)
                frame[place:place] = rng.randbytes(rng.randrange(1, 64))
            case 4:
                frames[at] = bytearray(rng.randbytes(rng.randrange(300)))
            case 5 if len(frames) > 1:
                del frames[at]
            case 6:
                frames.insert(at, bytearray(frame))
            case 7:
                other = rng.choice(frames)
                frame[rng.randrange(len(frame) + 1) :] = other[rng.randrange(len(other) + 1) :]
            case _ if len(frame) >= 8:
                struct.pack_into("<I", frame, rng.randrange(len(frame) - 3), rng.choice((0, 1, 2**31, 2**32 - 1)))
            case _:
                pass
    return [bytes(frame) for frame in frames]


def throw(port: int, samples: list[list[bytes]], rng: random.Random, cases: int) -> None:
    """Send `cases` damaged messages over many connections, and now and then bytes that are not even ZeroMQ's."""
    context = zmq.Context()
    try:
        for start in range(0, cases, PER_CONNECTION):
            with context.socket(zmq.DEALER) as sock:
                sock.setsockopt(zmq.LINGER, 500)
                sock.setsockopt(zmq.SNDTIMEO, 2000)
                sock.connect(f"tcp://127.0.0.1:{port}")
                for _ in range(min(PER_CONNECTION, cases - start)):
                    with contextlib.suppress(zmq.Again):
                        sock.send_multipart(damaged(rng, rng.choice(samples)))
                while sock.poll(5):
                    sock.recv_multipart()
            if rng.random() < 0.2:
                with socket.create_connection(("127.0.0.1", port)) as plain, contextlib.suppress(OSError):
                    greeting = rng.choice((b"", b"\xff" + bytes(8) + b"\x01\x7f"))
                    plain.sendall(greeting + rng.randbytes(rng.randrange(5000)))
    finally:
        context.destroy(linger=500)


# --- what must hold ----------------------------------------------------------------------------------------


def resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Honest:
    """Works in a thread of its own all the while; `check` says how that went."""

    def __init__(self, work) -> None:
        self.rounds = 0
        self._error: BaseException | None = None
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(work,), daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._done.set()
        self._thread.join(60)

    def _run(self, work):
        try:
            while not self._done.is_set():
                work()
                self.rounds += 1
        except BaseException as error:
            self._error = error

    def check(self) -> None:
        assert not self._thread.is_alive(), f"the honest client hangs after {self.rounds} rounds (seed {SEED})"
        assert self._error is None, f"after {self.rounds} rounds (seed {SEED}): {self._error!r}"
        assert self.rounds > 0


def unharmed(pid: int, port: int, samples: list[list[bytes]], work, newcomer) -> None:
    """Throw everything at it twice: once so that its buffers grow to their size, once more to see that they stay."""
    rng = random.Random(SEED)
    throw(port, samples, rng, CASES // 3)
    newcomer()
    before = resident(pid)
    with Honest(work) as honest:
        throw(port, samples, rng, CASES)
    honest.check()
    newcomer()
    assert resident(pid) - before < GROWTH, f"it grew by {(resident(pid) - before) >> 20} MiB (seed {SEED})"


@pytest.fixture(scope="module")
def server():
    with Server(port=0, sessions=3, warm=2, silent=True) as running:
        yield running


def recorded(monkeypatch, owner, name, frames_of):
    """What passes through the function `name` of `owner` while the test goes on."""
    kept: list[list[bytes]] = []
    through = getattr(owner, name)

    def record(*args, **kwargs):
        kept.append([bytes(frame) for frame in frames_of(*args)])
        return through(*args, **kwargs)

    monkeypatch.setattr(owner, name, record)
    return kept


def use(session) -> None:
    """Something of everything that a client asks a box."""
    session.upload(kernel("add_one", 64).to_bytes(), "k.tunefarm")
    function = session.load_module("k.tunefarm")["kernel"]
    a = nd.array(np.zeros(64, np.float32), session.cpu())
    function(a, a)
    np.testing.assert_array_equal(a.numpy(), 1.0)
    assert session.download("k.tunefarm") == kernel("add_one", 64).to_bytes()
    session.remove("k.tunefarm")
    session.status()


def use_more(session) -> None:
    use(session)
    artifact = kernel("add_one", 64)
    assert session.measure(MeasureRequest(artifact.digest, options=EvaluatorOptions(number=1)), [artifact]).ok


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
    with Tracker(port=0, silent=True, timing=Timing(grace_s=2.0)) as tracker:
        address = ("127.0.0.1", tracker.port)
        with Server(port=0, silent=True, tracker_addr=address, key="cpu", name="box"):

            def newcomer():
                with connect_tracker(*address, user="new") as session, session.request("cpu", wait_s=60) as remote:
                    remote.cpu().sync()

            samples = recorded(monkeypatch, channel.Channel, "_send", as_frames)
            newcomer()
            with connect_tracker(*address, user="admin") as session:
                session.devices()
                session.queue()
                with pytest.raises(UnknownDeviceError):  # who may take a device out is for keys to say, not for this
                    session.drain("nobody")
            monkeypatch.undo()
            assert len(samples) > 5
            samples.append(first_words_of_a_box())
            with connect_tracker(*address, user="ann") as session:
                unharmed(tracker.pid, tracker.port, samples, session.devices, newcomer)


def as_frames(_channel, message, kind, request_id=0):
    return channel.to_tracker.encode(message, kind, request_id=request_id)


def first_words_of_a_box() -> list[bytes]:
    """As a listener hears them that never answers."""
    context = zmq.Context()
    try:
        with context.socket(zmq.ROUTER) as listener:
            at = listener.bind_to_random_port("tcp://127.0.0.1")
            with Server(port=0, silent=True, tracker_addr=("127.0.0.1", at), key="other", name="forged"):
                assert listener.poll(30_000)
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
