"""Frames in shared memory: whole, used again when nobody looks, and no way to hurt the other side."""

import os
import socket
import struct

import numpy as np
import pytest

from rpc_server.client.host_memory_pool import HostMemoryPool
from rpc_server.errors import ProtocolError
from rpc_server.wire.messages import CHUNK
from rpc_server.wire.shared_window import SLOT, SLOTS, SharedWindow, make_window_memory
from rpc_server.wire.stream import FrameStream, stream_pair

SIZE = 100_000  # it fits into the socket, too


@pytest.fixture
def pair():
    """Two streams that share memory; the first one made it."""
    fd = make_window_memory()
    ours, theirs = stream_pair()
    for sock in (ours, theirs):
        sock.settimeout(60)
    yield (
        FrameStream(ours, window=SharedWindow(fd, made=True)),
        FrameStream(theirs, window=SharedWindow(fd, made=False)),
    )
    os.close(fd)
    ours.close()
    theirs.close()


def passed(sender, receiver, number):
    """A message with a big frame of `number`s, as it arrived."""
    sender.send([b"head", b"body", np.full(SIZE, number, np.uint8).data])
    (message,) = receiver.receive()
    return message


def in_window(*sizes):
    """A prefix as whoever sends what it likes may write it."""
    return struct.pack(f"<I{len(sizes)}I", len(sizes), *sizes)


def slot(number, size=SIZE):
    return 1 << 31 | number << 24 | size


def test_a_chunk_fits_into_a_slot():
    assert CHUNK <= SLOT


def test_big_frames_arrive_whole_both_ways(pair):
    for sender, receiver in (pair, pair[::-1]):
        for number in range(3 * SLOTS):
            head, body, data = passed(sender, receiver, number)
            assert (bytes(head), bytes(body), len(data)) == (b"head", b"body", SIZE)
            assert (np.frombuffer(data, np.uint8) == number).all()


def test_sizes_and_places_that_the_window_is_not_for(pair):
    left, right = pair
    big = bytes(range(256)) * (SLOT // 256)
    sent = [[big[:200_000], big[:100_000]], [b"h", b"", big[:70_001], b"", big[1:], big[:65_536], b"end"]]
    for frames in sent:
        left.send(frames)
        (message,) = right.receive()
        assert [bytes(frame) for frame in message] == frames


def test_what_is_looked_at_stays_as_it_is(pair):
    kept = [passed(*pair, number)[2] for number in range(2 * SLOTS)]  # the second half goes by the socket
    assert [set(bytes(data)) for data in kept] == [{number} for number in range(2 * SLOTS)]


def test_a_slot_is_free_when_the_last_view_is_gone(pair):
    left, right = pair
    window = left.window
    data = passed(left, right, 1)[2]
    assert window._bytes[0] == 1
    part = np.frombuffer(data[10:20], np.uint8)
    del data
    assert window._bytes[0] == 1
    assert part[0] == 1
    del part
    assert window._bytes[0] == 0


@pytest.mark.parametrize(
    "sizes",
    [
        (1, 1, slot(SLOTS)),  # of who is told of it
        (1, 1, slot(2 * SLOTS)),
        (1, 1, slot(127)),
        (1, 1, slot(0, SLOT + 1)),
        (1, 1, slot(0, (1 << 24) - 1)),
        (1, 1, slot(0), slot(0)),  # twice
        (slot(0), 1, 1),  # decoded ones, which could change meanwhile
        (1, slot(0), 1),
    ],
)
def test_frames_that_cannot_be(pair, sizes):
    left, right = pair
    left.sock.sendall(in_window(*sizes) + b"xxx")
    with pytest.raises(ProtocolError):
        right.receive()


def test_without_a_window_there_are_no_frames_in_one():
    ours, theirs = stream_pair()
    with ours, theirs:
        theirs.sendall(in_window(1, 1, slot(0)) + b"xx")
        with pytest.raises(ProtocolError):
            FrameStream(ours).receive()


def other_memory(seal, size):
    fd = os.memfd_create("other", os.MFD_ALLOW_SEALING if seal else 0)
    os.ftruncate(fd, size)
    return fd


@pytest.mark.parametrize("size", [0, 4096, 1 << 30, None])
def test_memory_that_may_shrink_or_is_too_small_is_refused(size):
    right = make_window_memory()
    fd = other_memory(size is None, os.fstat(right).st_size if size is None else size)
    with pytest.raises(ProtocolError):
        SharedWindow(fd, made=False)
    left, _ = socket.socketpair()
    with pytest.raises((ProtocolError, OSError)):  # no memory at all
        SharedWindow(left.fileno(), made=False)
    os.close(fd)
    os.close(right)


def test_the_size_is_sealed():
    fd = make_window_memory()
    for size in (0, 1 << 30):
        with pytest.raises(PermissionError):
            os.ftruncate(fd, size)
    os.close(fd)


# --- where copies land -------------------------------------------------------------------------------------


def landed(host_memory, nbytes):
    return np.frombuffer(host_memory.take(nbytes), np.uint8)


def test_memory_of_results_is_used_again_when_nobody_holds_it():
    host_memory = HostMemoryPool()
    first = landed(host_memory, 4 << 20)
    second = landed(host_memory, 4 << 20)
    assert first.ctypes.data != second.ctypes.data
    place, view = first.ctypes.data, first[5:].reshape(-1)
    del first
    assert landed(host_memory, 4 << 20).ctypes.data != place  # there is still a view of it
    del view
    assert landed(host_memory, (4 << 20) - 100).ctypes.data == place


def test_little_is_kept_and_nothing_after_the_end():
    host_memory = HostMemoryPool()
    assert host_memory.take(1000) is None
    assert host_memory.take(1 << 30) is None
    many = [landed(host_memory, 100 << 20) for _ in range(4)]
    del many
    assert len(host_memory._free) == 2
    held = landed(host_memory, 4 << 20)
    host_memory.close()
    del held
    assert not host_memory._free
