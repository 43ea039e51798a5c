"""Peers that ask for all they may, as fast as they can: others are served all the same."""

import contextlib
import time
from types import SimpleNamespace

import zmq

from rpc_server.wire.codec import MessageKind
from rpc_server.wire.guard.connection_guard import ConnectionGuard
from rpc_server.wire.tracker_messages import MAX_SLOTS, BoxHello, Query, to_tracker
from rpc_server.wire.tracker_records import DeviceSpec
from tracker import server
from tracker.farm_parts import Timing

BOXES = 60
PEERS = 100  # fewer than may be silent at a time
ASKED = 10
ANSWER_S = 0.01
DEVICES = tuple(DeviceSpec(slot=slot, key="cpu", tags=("x" * 50,) * 4) for slot in range(MAX_SLOTS))


class Clock:
    """Seconds that pass with the answers only, so that a busy machine does not count."""

    def __init__(self):
        self.now = 1000.0
        self.time, self.sleep = time.time, time.sleep

    def monotonic(self):
        return self.now


@contextlib.contextmanager
def speakers(context, count):
    with contextlib.ExitStack() as stack:
        made = [stack.enter_context(context.socket(zmq.DEALER)) for _ in range(count)]
        for sock in made:
            sock.linger = 0
            sock.connect("inproc://tracker")  # what is said has arrived
        yield made


def hello(number):
    said = BoxHello(f"p{number}", f"box{number}", f"10.0.0.{number}:9091", DEVICES)
    return to_tracker.encode(said, MessageKind.NOTE)


def test_a_flood_of_questions_on_a_huge_farm_delays_others_by_little(monkeypatch):
    """Each answer takes milliseconds: a round of all who ask would take a second or more."""
    clock = Clock()
    monkeypatch.setattr(server, "time", clock)
    with zmq.Context() as context, context.socket(zmq.ROUTER) as front, contextlib.ExitStack() as stack:
        guard = ConnectionGuard(front)
        stack.callback(guard.close)
        front.bind("inproc://tracker")
        loop = server.TrackerLoop(front, guard, Timing(late_s=1e6, box_timeout_s=1e6), 1000)
        answered = SimpleNamespace(count=0)
        reply = loop._reply

        def slow_reply(*asked):
            reply(*asked)
            answered.count += 1
            clock.now += ANSWER_S

        monkeypatch.setattr(loop, "_reply", slow_reply)
        farm, box = stack.enter_context(speakers(context, 2))
        for number in range(BOXES):
            farm.send_multipart(hello(number))
        loop._turn()
        for _ in range(BOXES):
            farm.recv_multipart(zmq.NOBLOCK)
        flood = stack.enter_context(speakers(context, PEERS))
        question = to_tracker.encode(Query("devices"), MessageKind.REQUEST, request_id=1)
        for sock in flood:
            for _ in range(ASKED):
                sock.send_multipart(question)
        loop._turn()
        assert 0 < answered.count < PEERS  # the flood has begun, and goes on for long
        for _ in range(3):
            began = clock.now
            box.send_multipart(hello(BOXES))
            while not box.poll(0):
                loop._turn()
            box.recv_multipart()
            assert clock.now - began < 0.4
        while answered.count < PEERS * ASKED:
            loop._turn()
        assert all(len(list(received(sock))) == ASKED for sock in flood)


def received(sock):
    with contextlib.suppress(zmq.Again):
        while True:
            yield sock.recv_multipart(zmq.NOBLOCK)
