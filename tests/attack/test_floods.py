"""Peers that ask for all they may, as fast as they can: others are served all the same."""

import contextlib
import time

import zmq

from rpc_server.wire.codec import MessageKind
from rpc_server.wire.tracker_messages import MAX_SLOTS, BoxHello, Query, to_tracker
from rpc_server.wire.tracker_records import DeviceSpec
from tracker.server import Tracker

BOXES = 60
PEERS = 100  # fewer than may be silent at a time
ASKED = 30
DEVICES = tuple(DeviceSpec(slot=slot, key="cpu", tags=("x" * 50,) * 4) for slot in range(MAX_SLOTS))


@contextlib.contextmanager
def speakers(port, count):
    with contextlib.ExitStack() as stack:
        context = stack.enter_context(zmq.Context())
        made = [stack.enter_context(context.socket(zmq.DEALER)) for _ in range(count)]
        for sock in made:
            sock.linger = 0
            sock.connect(f"tcp://127.0.0.1:{port}")
        yield made


def hello(number):
    said = BoxHello(f"p{number}", f"box{number}", f"10.0.0.{number}:9091", DEVICES)
    return to_tracker.encode(said, MessageKind.NOTE)


def welcomed(box):
    assert box.poll(60_000)
    box.recv_multipart()


def test_a_flood_of_questions_on_a_huge_farm_delays_others_by_little():
    """Each answer takes milliseconds: a round of all who ask would take a second or more."""
    with Tracker(port=0, silent=True) as tracker, speakers(tracker.port, 2) as (farm, box):
        for number in range(BOXES):
            farm.send_multipart(hello(number))
        for _ in range(BOXES):
            welcomed(farm)
        with speakers(tracker.port, PEERS) as flood:
            question = to_tracker.encode(Query("devices"), MessageKind.REQUEST, request_id=1)
            for sock in flood:
                for _ in range(ASKED):
                    sock.send_multipart(question)
            assert flood[0].poll(60_000)
            began = time.monotonic()
            for _ in range(3):
                box.send_multipart(hello(BOXES))
                welcomed(box)
            assert (time.monotonic() - began) / 3 < 0.4
