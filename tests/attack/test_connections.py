"""The costs of connections to a service: chosen ids, silence, numbers, messages that do not end, unread answers."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from rpc_server.box.server import Server
from rpc_server.client.connect import open_session
from rpc_server.relay.handshake import _read
from rpc_server.relay.passes import GREETING_SIZE, Greeting
from rpc_server.relay.server import Relay
from rpc_server.wire.codec import MessageKind
from rpc_server.wire.guard import connection_guard
from rpc_server.wire.guard.budget import Budget
from rpc_server.wire.messages import BoxInfo, public_codec
from rpc_server.wire.tracker_messages import Query, to_tracker
from tests.kit.farm.attack import COMMAND, LONG, MORE, RawPeer, guarded_router, zmtp_frame
from tests.kit.farm.keyed import greeted, keyed_box
from tests.kit.process_tree import resident
from tracker.client import connect_tracker
from tracker.server import Tracker

MIB = 1 << 20
FLOOD = 512 << 10
STALLED_S = 5.0
"""A flood of which nothing is taken in for so long was put an end to."""


def control_port(relay: Relay) -> int:
    with socket.create_connection(("127.0.0.1", relay.port)) as sock:
        return Greeting.from_bytes(_read(sock, GREETING_SIZE, time.monotonic() + 60)).port


SERVICES = {
    "box": (lambda: Server(port=0, silent=True), lambda service: service.port),
    "tracker": (lambda: Tracker(port=0, silent=True), lambda service: service.port),
    "relay": (lambda: Relay(silent=True), control_port),
}


def until(condition, timeout_s: float = 60.0) -> None:
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def known(guard) -> int:
    """Connections that have said something which makes sense."""
    return sum(peer.known for peer in list(guard._by_fd.values()))


def first_number_unseeded() -> int:
    """Where libzmq's counter of routing ids starts when nobody seeds libc's generator."""
    code = "import ctypes; c = ctypes.CDLL(None); low = c.rand(); print((c.rand() << 31 | low) & 0xFFFFFFFF)"
    return int(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)


@pytest.mark.parametrize("service", SERVICES)
def test_chosen_routing_ids_do_not_abort(service):
    """40 ids ahead of where the counter used to start, then connections that make it count."""
    start, port_of = SERVICES[service]
    first = first_number_unseeded()
    with start() as running:
        port = port_of(running)
        peers = [RawPeer(port, b"\0" + struct.pack(">I", (first + n) % 2**32)) for n in range(5, 45)]
        peers += [RawPeer(port) for _ in range(60)]
        time.sleep(0.5)
        assert running.is_alive
        for peer in peers:
            peer.close()


def test_each_process_counts_from_elsewhere():
    """The first id that a service gives out is another one every time."""
    seen = set()
    code = (
        "import zmq\nfrom rpc_server.wire.guard.connection_guard import seed_routing_ids\nseed_routing_ids()\n"
        "c = zmq.Context(); r = c.socket(zmq.ROUTER); r.bind('inproc://a'); d = c.socket(zmq.DEALER)\n"
        "d.connect('inproc://a'); d.send(b''); print(r.recv().hex())"
    )
    for _ in range(3):
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
        seen.add(run.stdout)
    assert len(seen) == 3


def test_silence_is_cut_off():
    with guarded_router(Budget(silent_s=2.0)) as (port, _):
        silent, half, speaks = RawPeer(port), socket.create_connection(("127.0.0.1", port)), RawPeer(port)
        speaks.send(b"hello")
        assert silent.is_cut_off()
        half.settimeout(60)
        while half.recv(1000):  # the greeting, then the end
            pass
        assert not speaks.is_cut_off(2.5)


def test_nonsense_is_cut_off():
    def refuse(*_):
        raise ValueError

    with guarded_router(Budget(silent_s=60, errors=20), refuse) as (port, _):
        peer = RawPeer(port)
        for _ in range(20):
            peer.send(b"nonsense")
        assert peer.is_cut_off()


def test_strangers_are_few():
    with guarded_router(Budget(strangers=5, silent_s=60)) as (port, guard):
        first = [RawPeer(port) for _ in range(5)]
        later = [RawPeer(port) for _ in range(5)]
        assert all(peer.is_cut_off() for peer in first)
        assert not later[-1].is_cut_off(0.3)
        assert len(guard) == 5


def test_strangers_of_a_keyed_box_take_little_memory(tmp_path):
    """150 connections that hold no key send 4 MiB each of a handshake, all but the last byte, at the same time."""
    size = 4 * MIB - 1024
    with keyed_box(tmp_path) as (running, ann):
        before, most = resident(running.pid), 0
        peers = [greeted(running.port) for _ in range(150)]
        for peer in peers:
            peer.setblocking(False)
            with contextlib.suppress(OSError):
                peer.send(bytes([COMMAND | LONG]) + struct.pack(">Q", size))
        for _ in range(40):
            for peer in peers:
                with contextlib.suppress(OSError):
                    peer.send(bytes(MIB))
            most = max(most, resident(running.pid) - before)
            time.sleep(0.02)
        open_session("127.0.0.1", running.port, wait_s=60, keys=ann).close()
        for peer in peers:
            peer.close()
        assert running.is_alive

    assert most < 48 * MIB  # 600 were all taken


def test_who_speaks_under_an_id_not_given_yet_is_cut_off():
    with guarded_router(Budget(silent_s=60)) as (port, guard):
        honest, named = RawPeer(port), RawPeer(port, b"name of its own")
        honest.send(b"hello")
        named.send(b"hello")
        hostile = RawPeer(port, b"\0" + struct.pack(">I", (guard._first_id + 1000) % 2**32))
        hostile.send(b"hello")
        assert hostile.is_cut_off()
        assert not honest.is_cut_off(0.1)
        assert not named.is_cut_off(0.1)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_an_address_opens_so_many_connections_a_second(host, monkeypatch):
    """Once it was too fast, the kernel accepts none of it for a while, those of others all the same."""
    held = [time.monotonic()]  # the guard's clock stands still until it is "after a while"
    clock = SimpleNamespace(monotonic=lambda: held[0] if held else time.monotonic())
    monkeypatch.setattr(connection_guard, "time", clock)
    with guarded_router(Budget(burst=20, rate=5.0, silent_s=60), host=host) as (port, guard):
        honest = RawPeer(port, host=host)
        honest.send(b"hello")
        until(lambda: known(guard) == 1)  # a stranger makes room
        hostile, end = [], time.monotonic() + 60
        while not guard._refused:
            with contextlib.suppress(OSError):
                hostile.append(socket.create_connection((host, port), timeout=0.2))
            assert time.monotonic() < end
        before = -1
        until(lambda: guard._accepted > len(hostile))
        while before != guard._accepted:  # what waited before the kernel refused is accepted still
            before = guard._accepted
            time.sleep(0.15)
        for _ in range(5):
            with pytest.raises(TimeoutError):
                socket.create_connection((host, port), timeout=0.1)
        assert guard._accepted == before
        assert not honest.is_cut_off(0.1)
        if host == "127.0.0.1":
            with socket.create_connection((host, port), timeout=60, source_address=("127.0.0.2", 0)):
                pass
        held.clear()
        with socket.create_connection((host, port), timeout=60):  # after a while
            pass
        for sock in hostile:
            sock.close()


def test_connections_are_few_and_the_quiet_make_room():
    """Who is in use stays, who has been quiet longest goes."""
    with guarded_router(Budget(connections=4, silent_s=60)) as (port, guard):
        peers = []
        for number in range(4):
            peers.append(RawPeer(port))
            peers[-1].send(b"hello")
            until(lambda number=number: known(guard) == number + 1)
        needed = next(iter(guard._by_conn))
        guard.needed = lambda conn: conn == needed
        peers.append(RawPeer(port))
        peers[-1].send(b"hello")
        assert peers[1].is_cut_off()
        assert not any(peer.is_cut_off(0.1) for peer in (peers[0], *peers[2:]))


def test_a_message_that_does_not_end():
    """ZeroMQ bounds frames, not how many of them a message has."""
    with guarded_router(Budget(unfinished=24 * MIB, silent_s=60)) as (port, _):
        honest = RawPeer(port)
        honest.send(b"hello")
        hostile = RawPeer(port)
        hostile.send(b"hello")
        hostile.sock.settimeout(STALLED_S)
        before = resident(os.getpid())
        assert hostile.flood(zmtp_frame(bytes(MIB), MORE), 4096)  # 4 GiB, were it let
        assert resident(os.getpid()) - before < 600 * MIB
        assert not honest.is_cut_off(0.1)


def test_small_frames_of_many_connections():
    """Each connection keeps within its bound; ZeroMQ takes 32 times as much memory as they send bytes."""
    budget = Budget(unfinished=8 * MIB, credit=16 * MIB, growth=48 * MIB, silent_s=60)
    with guarded_router(budget) as (port, guard):
        honest, hostile = RawPeer(port), [RawPeer(port) for _ in range(6)]
        for peer in (honest, *hostile):
            peer.send(b"hello")
            peer.sock.settimeout(1)
        until(lambda: known(guard) == 7)
        before, most, sent = resident(os.getpid()), 0, 0
        while len(guard) == 7 and sent < 36 * MIB:
            for peer in hostile:
                with contextlib.suppress(OSError):
                    peer.sock.sendall(zmtp_frame(b"", MORE) * (MIB // 8))
            sent += 6 * MIB // 4
            most = max(most, resident(os.getpid()) - before)
        until(lambda: len(guard) < 7)
        assert most < 300 * MIB  # 1.1 GiB were they let
        assert not honest.is_cut_off(0.1)


def test_big_whole_messages_go_on():
    """An honest client's large uploads are within all limits."""
    with guarded_router(Budget(unfinished=8 * MIB, silent_s=60)) as (port, _):
        peer = RawPeer(port)
        peer.send(b"hello")
        for _ in range(60):
            peer.send(b"head", bytes(2 * MIB))
        assert not peer.is_cut_off(0.6)


def test_answers_that_nobody_reads():
    answer = [bytes(MIB)]

    def answers(sock, route, frames):
        return [answer] * 4

    with guarded_router(Budget(unread=32 * MIB, silent_s=60), answers) as (port, _):
        reads = RawPeer(port)
        hostile = RawPeer(port)
        before = resident(os.getpid())
        for _ in range(64):
            try:
                hostile.send(b"give me 4 MiB")
            except OSError:
                break
            time.sleep(0.005)
        assert resident(os.getpid()) - before < 150 * MIB
        assert hostile.is_cut_off()
        got = 0
        for _ in range(30):  # 120 MiB, all of them read
            reads.send(b"give me 4 MiB")
            got += 4 * MIB
            while got > 0:
                part = len(reads.sock.recv(MIB))
                assert part
                got -= part


@pytest.mark.parametrize("service", ["box", "tracker"])
def test_service_survives_messages_without_end(service):
    """Connections that send up to two gigabytes each; an honest client is served meanwhile and afterwards."""
    start, port_of = SERVICES[service]
    with start() as running:
        port = port_of(running)
        before = resident(running.pid)
        body = BoxInfo() if service == "box" else Query("numbers")
        codec = public_codec if service == "box" else to_tracker
        most = 0

        def measure() -> None:
            nonlocal most
            most = max(most, resident(running.pid) - before)

        # an empty frame takes two bytes on the wire, and 64 in ZeroMQ
        for size, bound in ((256 << 10, 150 * MIB), (256 << 10, 150 * MIB), (0, 500 * MIB)):
            hostile = RawPeer(port)
            hostile.send(*(bytes(frame) for frame in codec.encode(body, MessageKind.REQUEST, request_id=1)))
            hostile.sock.settimeout(STALLED_S)
            assert hostile.flood(zmtp_frame(bytes(size), MORE) * (FLOOD // max(size, 2)), 4096, measure)
            hostile.close()
            assert most < bound
        if service == "box":
            open_session("127.0.0.1", port, wait_s=60).close()
        else:
            connect_tracker("127.0.0.1", port, timeout_s=60).close()
        assert running.is_alive


def test_box_bounds_unread_answers():
    """Requests for the status without end, whose answers are not read."""
    with Server(port=0, silent=True) as running:
        hostile = RawPeer(running.port)
        before = resident(running.pid)
        ask = b"".join(
            bytes([flags, len(frame)]) + bytes(frame)
            for flags, frame in zip((1, 0), public_codec.encode(BoxInfo(), MessageKind.REQUEST, request_id=1))
        )
        hostile.sock.settimeout(60)
        assert hostile.flood(ask * 256, 10_000)
        assert resident(running.pid) - before < 400 * MIB
        open_session("127.0.0.1", running.port, wait_s=60).close()
