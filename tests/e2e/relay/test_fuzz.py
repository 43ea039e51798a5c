"""A relay that is told nonsense, at both its ports, while an honest client uses a box behind it (kit.farm.damage)."""

import contextlib
import random
import socket

from rpc_server.relay.passes import BOX, CLIENT, PassAnswer, new_pass
from rpc_server.wire.codec import MessageKind
from rpc_server.wire.relay_messages import BoxPasses, to_relay
from tests.kit.farm.damage import CASES, GROWTH, SEED, Honest, damaged, throw, use
from tests.kit.farm.relay import greeted, relay_farm
from tests.kit.process_tree import resident


def words_of_boxes(rng: random.Random) -> list[list[bytes]]:
    """Messages of boxes, about passes that nobody has."""
    said = [BoxPasses(f"box{number}", tuple(new_pass().text for _ in range(number))) for number in range(5)]
    return [[bytes(frame) for frame in to_relay.encode(message, MessageKind.NOTE)] for message in said]


def show_wrong_passes(port: int, rng: random.Random, cases: int) -> None:
    """Connections that say too little, too much, or something else; some stay open for a while."""
    kept: list[socket.socket] = []
    try:
        for _ in range(cases):
            sock, greeting = greeted(port)
            answer = PassAnswer.to(greeting, rng.choice((CLIENT, BOX)), new_pass())
            (said,) = damaged(rng, [answer])[:1] or [b""]
            with contextlib.suppress(OSError):
                sock.sendall(said)
                if rng.random() < 0.1:
                    sock.sendall(rng.randbytes(rng.randrange(5000)))
            kept.append(sock)
            if len(kept) > 200:
                kept.pop(rng.randrange(len(kept))).close()
    finally:
        for sock in kept:
            sock.close()


def test_a_relay():
    rng = random.Random(SEED)
    with relay_farm() as farm, farm.connect() as session:

        def work():
            with session.request("cpu", wait_s=60, session_timeout=60) as remote:
                use(remote)

        def nonsense(cases: int) -> None:
            throw(control, words_of_boxes(rng), rng, cases)
            throw(farm.relay.port, words_of_boxes(rng), rng, cases // 5)
            show_wrong_passes(farm.relay.port, rng, cases)

        sock, greeting = greeted(farm.relay.port)
        sock.close()
        control = greeting.port
        nonsense(CASES // 3)
        work()
        before = resident(farm.relay.pid)
        with Honest(work) as honest:
            nonsense(CASES)
        honest.check()
        work()
        assert farm.relay.is_alive
        grown = resident(farm.relay.pid) - before
        assert grown < GROWTH, f"it grew by {grown >> 20} MiB (seed {SEED})"
        assert session.devices()[0].leases >= honest.rounds
