import math
import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.errors import ArgumentError, TunefarmError
from rpc_server.errors import ExecutorCrashed, ProtocolError, RemoteError
from rpc_server.wire.codec import (
    HEADER_SIZE,
    Address,
    Codec,
    Limits,
    MessageKind,
    check_frames,
    decode_error,
    encode_error,
    pack_header,
    read_header,
    timeout_to_ms,
)


class Ask(msgspec.Struct, frozen=True, tag="ask"):
    number: int
    names: tuple[str, ...] = ()


class Stop(msgspec.Struct, frozen=True, tag="stop"):
    pass


codec: Codec[Ask | Stop] = Codec(Ask | Stop, Limits(max_body=200, max_buffer=100, max_buffers=3))


def test_a_message_comes_back_whole():
    frames = codec.encode(
        Ask(3, ("x",)), request_id=2**63, address=Address.EXECUTOR, timeout_s=1.5, buffers=[b"abc", memoryview(b"de")]
    )
    message = codec.decode(frames)
    assert message.body == Ask(3, ("x",))
    assert message.header == (MessageKind.REQUEST, Address.EXECUTOR, 2, 2**63, 1500)
    assert [bytes(b) for b in message.buffers] == [b"abc", b"de"]


def test_buffers_are_not_copied():
    data = bytearray(b"abcd")
    frames = codec.encode(Stop(), buffers=[memoryview(data)])
    data[0] = ord("z")
    assert bytes(codec.decode(frames).buffers[0]) == b"zbcd"


@pytest.mark.parametrize(
    ("seconds", "ms"),
    [(None, 0), (0, 0), (-1, 0), (math.inf, 0), (math.nan, 0), (1e-9, 1), (0.0011, 2), (1e12, 2**32 - 1)],
)
def test_timeouts_round_up_and_saturate(seconds, ms):
    assert timeout_to_ms(seconds) == ms


@pytest.mark.parametrize(
    "frames",
    [
        [],
        [pack_header(MessageKind.REQUEST)],
        [b"", b""],
        [b"x" * HEADER_SIZE, b""],
        [pack_header(MessageKind.REQUEST, buffers=1), b"\x80"],
        [pack_header(MessageKind.REQUEST), b"\x80", b"extra"],
        [pack_header(MessageKind.REQUEST, buffers=1), b"\x80", b"x" * 101],
        [pack_header(MessageKind.REQUEST, buffers=4), b"\x80", b"", b"", b"", b""],
        [pack_header(MessageKind.REQUEST), b"x" * 201],
        [pack_header(MessageKind.REQUEST), b"\xc1"],
        [pack_header(MessageKind.REQUEST), msgspec.msgpack.encode({"type": "other"})],
        [pack_header(MessageKind.REQUEST), msgspec.msgpack.encode({"type": "ask", "number": "3"})],
        [pack_header(MessageKind.REQUEST), b"\x91" * 150],
        [pack_header(MessageKind.ERROR), b"\xff\xff"],
    ],
)
def test_anything_else_is_a_protocol_error(frames):
    with pytest.raises(ProtocolError):
        codec.decode(frames)


def test_another_version_is_named():
    header = bytearray(pack_header(MessageKind.REQUEST))
    header[4] = 9
    with pytest.raises(ProtocolError, match="version 9"):
        read_header(header)


def test_unknown_kinds_and_reserved_bits_are_refused():
    for position, value in ((5, 0), (5, 77), (6, 9), (HEADER_SIZE - 1, 1)):
        header = bytearray(pack_header(MessageKind.REQUEST))
        header[position] = value
        with pytest.raises(ProtocolError):
            read_header(header)


def test_encoding_checks_the_limits_too():
    with pytest.raises(ProtocolError, match="Ask does not fit"):
        codec.encode(Ask(1, ("x" * 300,)))
    with pytest.raises(ProtocolError):
        codec.encode(Stop(), buffers=[b""] * 4)


def test_an_error_is_raised_as_its_class():
    error = ExecutorCrashed(
        "it died", hint="look", detail={"signal": "SIGSEGV", "exit_code": None, "other": {1, 2}, "big": 2**70}
    )
    frames = encode_error(error, 7)
    assert check_frames(frames).request_id == 7
    with pytest.raises(ExecutorCrashed) as caught:
        codec.decode(frames)
    assert caught.value.message == "it died"
    assert caught.value.hint == "look"
    assert caught.value.signal == "SIGSEGV"
    assert caught.value.exit_code is None
    assert caught.value.detail["other"] == "{1, 2}"


def test_errors_of_other_kinds_travel():
    assert isinstance(decode_error(encode_error(ArgumentError("bad"))), ValueError)
    stranger = decode_error(encode_error(KeyError("k")))
    assert isinstance(stranger, RemoteError)
    assert "KeyError" in stranger.message
    frames = encode_error(TunefarmError("m"))
    frames[1] = bytes(frames[1]).replace(b"error", b"earth")
    assert "earth" in decode_error(frames).message


def test_a_long_error_is_cut():
    assert len(decode_error(encode_error(RemoteError("x" * 10**6))).message) < 20_000


@given(st.lists(st.binary(max_size=64), max_size=6))
def test_random_frames_never_do_more_than_raise(frames):
    with pytest.raises(TunefarmError):
        codec.decode(frames)


@given(st.integers(0, 2**32))
def test_mutated_messages_decode_or_raise(seed):
    rng = random.Random(seed)
    frames = [bytearray(f) for f in codec.encode(Ask(5, ("abc", "d")), buffers=[b"12345"])]
    for _ in range(rng.randint(1, 4)):
        frame = rng.choice(frames)
        frame[rng.randrange(len(frame))] = rng.randrange(256)
    try:
        message = codec.decode(frames)
    except TunefarmError:
        return
    assert isinstance(message.body, Ask | Stop)
