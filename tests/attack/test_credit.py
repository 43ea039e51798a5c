"""The kernel bounds the bytes it takes in of a connection, however little of the processor the service gets."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import time

import pytest
import zmq

from rpc_server.wire.guard.budget import Budget
from rpc_server.wire.guard.kernel_facts import bytes_of
from rpc_server.wire.guard.socket_filter import (
    FIRST_PAYLOAD,
    _attach,
    credit_program,
    first_number,
    listener_program,
    prepare_listener,
)
from tests.kit.farm.attack import MORE, RawPeer, Starved, guarded_router, zmtp_frame

MIB = 1 << 20
PACKET = 1 << 17  # the kernel drops whole packets: one that begins within the credit may end beyond it


def received(guard) -> int:
    """Bytes that the kernel has taken in of the newest connection."""
    counts = bytes_of(max(guard._by_fd))
    assert counts is not None
    return counts[1]


def until(condition, timeout_s: float = 60.0) -> None:
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


@pytest.mark.parametrize("size", [256 << 10, 0])
@pytest.mark.parametrize("known", [True, False])
def test_a_service_that_gets_no_time_takes_no_more_in(size, known):
    """A message without end while neither the guard nor the service runs: ZeroMQ's own thread goes on reading."""
    starved = Starved()
    budget = Budget(credit=3 * MIB, stranger_bytes=MIB // 2, silent_s=60)
    with guarded_router(budget, starved=starved) as (port, guard):
        hostile = RawPeer(port)
        if known:
            hostile.send(b"hello")
            until(lambda: any(peer.known for peer in guard._by_fd.values()))
        until(lambda: len(guard) == 1)
        starved.begin()
        hostile.sock.settimeout(1)
        hostile.flood(zmtp_frame(bytes(size), MORE) * (MIB // max(size, 2)), 256)
        until(lambda: received(guard) > MIB // 4)  # the last of it may be on its way
        assert received(guard) < (budget.credit if known else budget.stranger_bytes) + PACKET
        starved.end()
        hostile.close()


def test_a_connection_that_says_nothing_at_first_is_bounded_soon():
    budget = Budget(credit=3 * MIB, stranger_bytes=MIB // 2, silent_s=60, first_words_s=0.01)
    starved = Starved()
    with guarded_router(budget, starved=starved) as (port, guard):
        hostile = RawPeer(port)
        until(lambda: len(guard) == 1 and all(peer.granted for peer in guard._by_fd.values()))
        starved.begin()
        hostile.sock.settimeout(1)
        hostile.flood(zmtp_frame(bytes(1), MORE) * 1000, MIB // 1000)
        assert received(guard) < budget.stranger_bytes + PACKET
        starved.end()
        hostile.close()


def test_the_first_words_are_heard_before_the_kernel_bounds_a_connection():
    budget = Budget(credit=3 * MIB, stranger_bytes=MIB // 2, silent_s=60, first_words_s=60.0)
    with guarded_router(budget) as (port, guard):
        honest = RawPeer(port)
        until(lambda: len(guard) == 1)
        (peer,) = guard._by_fd.values()
        honest.send(b"hello")
        until(lambda: peer.granted > budget.credit)
        honest.close()


def test_a_connection_that_the_service_has_not_seen_yet_brings_little():
    starved = Starved()
    with guarded_router(Budget(silent_s=60), starved=starved) as (port, guard):
        starved.begin()
        hostile = RawPeer(port)
        hostile.sock.settimeout(1)
        hostile.flood(zmtp_frame(bytes(256 << 10), MORE), 64)
        starved.end()
        until(lambda: len(guard) == 1)
        hostile.close()


def test_messages_that_are_heard_bring_no_credit_for_the_next():
    """Each message is worth as many bytes as it had, however it was written."""
    budget = Budget(credit=MIB, silent_s=60)
    starved = Starved()
    with guarded_router(budget, starved=starved) as (port, guard):
        hostile = RawPeer(port)
        for _ in range(2000):
            hostile.send(b"a", b"b" * 300)
        (peer,) = guard._by_fd.values()
        until(lambda: peer.wire == 2000 * (3 + 309))
        assert received(guard) - 200 < peer.wire <= received(guard)
        starved.begin()
        before = received(guard)
        hostile.sock.settimeout(1)
        hostile.flood(zmtp_frame(bytes(MIB // 4), MORE), 64)
        assert received(guard) < before + budget.credit + PACKET
        starved.end()


def test_honest_messages_are_counted_as_they_are_on_the_wire():
    """The messages are of every size, over many times the credit, with heartbeats between them."""
    heard = 0

    def count(_sock, _route, frames):
        nonlocal heard
        heard += sum(map(len, frames))

    sizes = [random.Random(7).choice([0, 1, 254, 255, 256, 257, 5000, 200_000]) for _ in range(400)]
    with guarded_router(Budget(credit=MIB, unfinished=MIB, silent_s=60), count) as (port, guard):
        context = zmq.Context()
        with context.socket(zmq.DEALER) as honest:
            honest.setsockopt(zmq.LINGER, 0)
            honest.setsockopt(zmq.HEARTBEAT_IVL, 10)
            honest.connect(f"tcp://127.0.0.1:{port}")
            begun = time.monotonic()
            for number, size in enumerate(sizes):
                honest.send_multipart([b"head", bytes(size)])
                if number % 100 == 0:
                    time.sleep(0.1)
            until(lambda: heard == sum(sizes) + 4 * len(sizes))
            (peer,) = guard._by_fd.values()
            beside = received(guard) - peer.wire
            assert 0 <= beside < 4096 + 2000 * (time.monotonic() - begun)
        context.term()


def kept(program: bytes, packet: bytes) -> bool:
    """Whether a filter lets a packet through: a datagram socket takes any."""
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with one, other:
        assert _attach(other, program)
        other.settimeout(0)
        with contextlib.suppress(OSError):  # who sends hears of it here, unlike over TCP
            one.send(packet)
        try:
            return len(other.recv(1 << 17)) == len(packet)
        except BlockingIOError:
            return False


def tcp_packet(sequence: int, payload: int, options: int = 0) -> bytes:
    words = 5 + options
    return struct.pack(">HHIIBBHHH", 1, 2, sequence % 2**32, 9, words << 4, 16, 3, 0, 0) + bytes(4 * options + payload)


@pytest.mark.parametrize("end", [5_000_000, 100, 0, 2**32 - 1, 2**31, 2**32 + 70])
def test_filter_of_a_connection(end):
    program = credit_program(end)
    assert kept(program, tcp_packet(end - 1, 1000))
    assert kept(program, tcp_packet(end - 1_000_000, 60_000, options=3))
    assert not kept(program, tcp_packet(end, 1))
    assert not kept(program, tcp_packet(end, 1, options=10))
    assert not kept(program, tcp_packet(end + 1_000_000, 1000, options=3))
    assert kept(program, tcp_packet(end, 0, options=3))  # acknowledgements of what we say
    assert kept(program, tcp_packet(end + 5, 0))


def test_filter_of_a_connection_without_its_own():
    program = listener_program(())
    assert kept(program, tcp_packet(1, 0, options=10))
    assert kept(program, tcp_packet(1, FIRST_PAYLOAD, options=3))
    assert not kept(program, tcp_packet(1, FIRST_PAYLOAD + 1, options=3))


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_first_number_of_a_connection(host):
    """Bytes behind a given byte are dropped, and the byte before it is not."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as listener:
        assert prepare_listener(listener)
        listener.bind((host, 0))
        listener.listen()
        with socket.create_connection(listener.getsockname()[:2]) as client:
            accepted, _ = listener.accept()
            with accepted:
                accepted.settimeout(0.2)
                number = first_number(accepted)
                assert number is not None
                assert _attach(accepted, credit_program(number + 10))
                client.sendall(b"0123456789")
                assert accepted.recv(100) == b"0123456789"
                client.sendall(b"more")
                with pytest.raises(TimeoutError):
                    accepted.recv(100)
                assert _attach(accepted, credit_program(number + 14))
                accepted.settimeout(60)
                assert accepted.recv(100) == b"more"
