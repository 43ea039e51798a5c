"""A hostile peer as a process, until SIGTERM: `python -m tests.kit.farm.attacker KIND PORT SEED`.

Kinds: "peers" speak to a tracker as a box and a client, "clients" to a box with sessions, "floods" open connections
that say nothing, too much or nonsense, and "kernels" lease a device and run kernels that misbehave.
"""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import sys
import time

import msgspec
import zmq

from compiler.errors import TunefarmError
from rpc_server.wire import tracker_messages
from rpc_server.wire.codec import Address, MessageKind
from rpc_server.wire.messages import AnyMessage, OpenSession, public_codec
from rpc_server.wire.tracker_messages import to_tracker
from rpc_server.wire.trial_messages import MeasureRequest
from tests.kit.farm.attack import COMMAND, LONG, MORE, RawPeer, zmtp_frame
from tests.kit.farm.hostile import answers, dealer, encoded
from tests.kit.farm.made_up import MadeUp, kinds
from tests.kit.farm.rpc_kernels import kernel
from tracker.client import connect_tracker

PAUSE_S = 0.1
"""Between bursts: services are to be attacked, not the machine's cores."""
_BURST = 25


def peers(port: int, rng: random.Random) -> None:
    """A box of devices of its own, and a client, with messages of every type in any order."""
    with zmq.Context() as context, dealer(context, port) as box, dealer(context, port) as client:
        known = {"peer": ["box-evil", "eve"], "expr": ["evil", "cpu & (", ""], "slot": [0, 1], "key": ["evil"]}
        fixed = {"box": "evil", "target": "evil/0", "address": "192.0.2.1:9091", "user": "eve"}
        make = MadeUp(rng, known, fixed)
        for _ in range(40):
            for sock, union in ((box, tracker_messages.FromBox), (client, tracker_messages.FromClient)):
                for number in range(_BURST):
                    with contextlib.suppress(msgspec.ValidationError, zmq.Again):
                        body = make.message(rng.choice(kinds(union)))
                        kind = rng.choice((MessageKind.REQUEST, MessageKind.NOTE))
                        sock.send_multipart(encoded(to_tracker, body, kind, request_id=number + 1), zmq.NOBLOCK)
                for _ in answers(sock):
                    pass
            time.sleep(PAUSE_S)


def clients(port: int, rng: random.Random) -> None:
    """Messages of every type to a box, with a session where it gives one."""
    with zmq.Context() as context, dealer(context, port) as sock:
        sock.send_multipart(encoded(public_codec, OpenSession("eve", wait_s=1.0), request_id=1))
        make = MadeUp(rng, {"name": ["a", "b"], "handle": list(range(4))}, {"client": "eve", "wait_s": 0.5})
        for number in range(2, 1000):
            with contextlib.suppress(msgspec.ValidationError, zmq.Again):
                body, where = make.message(rng.choice(kinds(AnyMessage))), rng.choice(list(Address))
                frames = encoded(public_codec, body, request_id=number, address=where, timeout_s=0.5)
                sock.send_multipart(frames, zmq.NOBLOCK)
            if number % _BURST == 0:
                for _ in answers(sock):
                    pass
                time.sleep(PAUSE_S)


def floods(port: int, rng: random.Random) -> None:
    """Connections that say nothing, half of a message, nonsense, a message without end, or choose an id."""
    opened: list[RawPeer] = []
    with contextlib.suppress(OSError):
        for _ in range(20):
            chosen = b"\0" + struct.pack(">I", rng.randrange(2**32)) if rng.random() < 0.3 else b""
            peer = RawPeer(port, chosen)
            opened.append(peer)
            peer.sock.settimeout(0.5)
            with contextlib.suppress(OSError):
                match rng.randrange(4):
                    case 0:
                        peer.send(*[b"nonsense"] * rng.randrange(1, 30))
                    case 1:
                        peer.flood(zmtp_frame(bytes(256 << 10), MORE), 60)
                    case 2:
                        peer.flood(zmtp_frame(b"", MORE) * 20_000, 60)
                    case _:
                        peer.sock.send(bytes([COMMAND | LONG]) + struct.pack(">Q", 1 << 30))
            with contextlib.suppress(OSError):
                opened[rng.randrange(len(opened))].sock.recv(1 << 16, socket.MSG_DONTWAIT)
            time.sleep(PAUSE_S)
    for peer in opened:
        peer.close()


def kernels(port: int, rng: random.Random) -> None:
    """A client whose kernels crash, never end, or take all memory."""
    with connect_tracker("127.0.0.1", port, user="eve") as tracker, tracker.request("cpu", wait_s=20) as remote:
        for kind in rng.sample(["segfault", "exit", "forever", "hungry"], 2):
            artifact = kernel(kind)
            remote.measure(MeasureRequest(artifact=artifact.digest, timeout_s=0.5), [artifact])
    time.sleep(1.0)  # honest clients want the device too


ATTACKS = {"peers": peers, "clients": clients, "floods": floods, "kernels": kernels}


def main(kind: str, port: int, seed: int) -> None:
    rng = random.Random(seed)
    while True:
        with contextlib.suppress(TunefarmError, zmq.ZMQError, OSError):
            ATTACKS[kind](port, rng)
        time.sleep(PAUSE_S)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
