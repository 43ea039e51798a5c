"""Real messages of hostile clients of a box with valid sessions, in any order, beside an honest client.

What was acknowledged to the honest client must be there at any time afterwards: files of its session, and arrays.
"""

from __future__ import annotations

import contextlib
import random
import socket
from typing import ClassVar

import msgspec
import numpy as np
import zmq
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from compiler.errors import TunefarmError
from rpc_server.box.server import Server
from rpc_server.client.connect import open_session
from rpc_server.client.connection import Connection
from rpc_server.machine.blobs import blob_digest
from rpc_server.wire.codec import Address, MessageKind
from rpc_server.wire.messages import AnyMessage, OpenSession, SessionOpened, public_codec
from rpc_server.wire.stream import FrameStream, StreamClosed
from tests.kit.farm.hostile import Hostile, answers, dealer, encoded, fuzz, kept, seeds
from tests.kit.farm.made_up import MadeUp, kinds
from tunefarm.runtime import NDArray, array

_KINDS = (MessageKind.REQUEST, MessageKind.REQUEST, MessageKind.REQUEST, MessageKind.REPLY, MessageKind.NOTE)
_BURST = 100  # opening a session takes longer than to say so many
_NAMES = ("a", "b", "c", "kept")


class Clients(Hostile):
    """Two with sessions through the supervisor, and one after the other on the lane; and the honest one."""

    port = 0
    server: Server
    honest = None
    files: ClassVar[dict[str, bytes]] = {}
    arrays: ClassVar[list[tuple[np.ndarray, NDArray]]] = []

    def __init__(self):
        super().__init__()
        self.context = zmq.Context()
        self.socks = [self._opened() for _ in range(2)]
        self.number = 1

    def _opened(self):
        sock = dealer(self.context, self.port)
        sock.send_multipart(encoded(public_codec, OpenSession("eve", wait_s=5.0), request_id=1))
        return sock

    def _messages(self, seed):
        """A burst of them, as frames."""
        known = {
            "digest": [blob_digest(b"abc"), "f" * 64],
            "digests": [[blob_digest(b"abc")]],
            "size": [3],
            "offset": [0],
            "name": list(_NAMES),
            "path": list(_NAMES),
            "handle": list(range(4)),
            "handles": [[1], [1, 2]],
            "session": [1, 2],
            "nbytes": [64, 4096],
        }
        make = MadeUp(random.Random(seed), known, {"client": "eve", "wait_s": 0.5})
        for _ in range(_BURST):
            type(self).sent += 1
            self.number += 1
            with contextlib.suppress(msgspec.ValidationError):
                yield encoded(
                    public_codec,
                    make.message(make.rng.choice(kinds(AnyMessage))),
                    make.rng.choice(_KINDS),
                    request_id=self.number if make.rng.random() < 0.9 else 1,
                    address=make.rng.choice(list(Address)),
                    timeout_s=0.5,
                    buffers=[b"abc"] * make.rng.choice((0, 0, 1, 2)),
                )

    @rule(seed=seeds, which=st.integers(0, 1))
    @kept
    def say(self, seed, which):
        for frames in self._messages(seed):
            with contextlib.suppress(zmq.Again):
                self.socks[which].send_multipart(frames)
        for _ in answers(self.socks[which]):
            pass

    @rule(which=st.integers(0, 1))
    @kept
    def come_again(self, which):
        self.socks[which].close()
        self.socks[which] = self._opened()

    @rule(seed=seeds)
    @kept
    def on_the_lane(self, seed):
        # All sessions may be taken; and this one may end at any message.
        with (
            contextlib.suppress(TunefarmError, StreamClosed, OSError),
            contextlib.closing(Connection("127.0.0.1", self.port)) as box,
        ):
            opened = box.request(OpenSession("eve", wait_s=2.0), timeout_s=10).body
            assert isinstance(opened, SessionOpened)
            with socket.socket(socket.AF_UNIX) as sock:
                sock.settimeout(2)
                sock.connect("\0" + opened.lane)
                sock.sendall(opened.lane_token)
                stream = FrameStream(sock)
                for frames in self._messages(seed):
                    stream.put(frames)
                    stream.flush()

    @rule(name=st.sampled_from(_NAMES), seed=seeds, size=st.sampled_from([0, 1, 5000, 300_000]))
    @kept
    def the_honest_one_writes(self, name, seed, size):
        content = random.Random(seed).randbytes(size)
        self.honest.upload(content, name)
        self.files[name] = content
        numbers = np.frombuffer(content[: size // 8 * 8] or bytes(8), np.int64)
        self.arrays[4:] = []
        self.arrays.insert(0, (numbers, array(numbers, self.honest.cpu())))

    @rule(name=st.sampled_from(_NAMES))
    @kept
    def the_honest_one_removes(self, name):
        if name in self.files:
            self.honest.remove(name)
            del self.files[name]

    @invariant()
    @kept
    def nothing_acknowledged_is_lost(self):
        assert self.server.is_alive
        for name, content in self.files.items():
            assert self.honest.download(name) == content
        for numbers, there in self.arrays:
            np.testing.assert_array_equal(there.numpy(), numbers)
        assert self.honest.is_open

    def teardown(self):
        self.context.destroy(linger=0)


def test_clients(capsys):
    with Server(port=0, silent=True, sessions=6, warm=2) as server:
        Clients.server, Clients.port, Clients.files, Clients.arrays = server, server.port, {}, []
        with open_session("127.0.0.1", server.port, wait_s=60) as session:
            Clients.honest = session
            fuzz(Clients, 0.1, 400, capsys, examples=3)
            Clients.arrays = []
        open_session("127.0.0.1", server.port, wait_s=60).close()
