"""Every number, text and list of every message has bounds; extreme values are refused, and no loop ends by them."""

from __future__ import annotations

import math
from typing import get_args

import msgspec
import pytest
import zmq
from msgspec import inspect

from rpc_server.box.server import Server
from rpc_server.client.connect import open_session
from rpc_server.errors import ProtocolError
from rpc_server.wire import tracker_messages
from rpc_server.wire.codec import MessageKind, decode_error, pack_header
from rpc_server.wire.messages import AnyMessage, Call, OpenSession, Returned, TimeFunction, public_codec
from rpc_server.wire.polling import poll_ms
from rpc_server.wire.private_messages import AnyPrivate
from rpc_server.wire.relay_messages import BoxPasses, BoxTurnedAway, CallBack, PassesHeard
from tracker.client import connect_tracker
from tracker.server import Tracker

ANY_VALUE = {"data", "args", "value", "fingerprint", "detail"}
"""Fields that hold an argument or result of a function, or builtins: as long as a message may be."""
UNIONS = {
    "public": AnyMessage,
    "private": AnyPrivate,
    "to_tracker": tracker_messages.FromBox | tracker_messages.FromClient,
    "from_tracker": tracker_messages.ToBox | tracker_messages.ToClient,
    "relay": BoxPasses | PassesHeard | BoxTurnedAway | CallBack,
}


def unbounded(kind, where, seen):
    """Paths of what has no bounds in a type."""
    match kind:
        case inspect.Metadata():
            yield from unbounded(kind.type, where, seen)
        case inspect.IntType() | inspect.FloatType():
            if kind.ge is None or kind.le is None or not math.isfinite(kind.le):
                yield where
        case inspect.StrType() | inspect.BytesType():
            if kind.max_length is None and getattr(kind, "pattern", None) is None:
                yield where
        case inspect.UnionType():
            for one in kind.types:
                yield from unbounded(one, where, seen)
        case inspect.VarTupleType() | inspect.ListType():
            if kind.max_length is None:
                yield where
            yield from unbounded(kind.item_type, where + "[]", seen)
        case inspect.TupleType():
            for one in kind.item_types:
                yield from unbounded(one, where + "[]", seen)
        case inspect.DictType():
            if kind.max_length is None:
                yield where
            yield from unbounded(kind.key_type, where + ".key", seen)
            yield from unbounded(kind.value_type, where + ".value", seen)
        case inspect.StructType() | inspect.DataclassType():
            if kind.cls not in seen:
                seen.add(kind.cls)
                for field in kind.fields:
                    if field.name not in ANY_VALUE:
                        yield from unbounded(field.type, f"{kind.cls.__name__}.{field.name}", seen)
        case inspect.AnyType():
            yield where


@pytest.mark.parametrize("union", UNIONS)
def test_every_field_has_bounds(union):
    assert list(unbounded(inspect.type_info(UNIONS[union]), union, set())) == []


EXTREMES = (math.nan, math.inf, -math.inf, -1, -(2**63), 2**64 - 1, 1e308, 3e6, "x" * 70_000, [0] * 5000, None, {})


def numbers_of(cls):
    return list(msgspec.structs.fields(cls))


def messages():
    for union in UNIONS.values():
        yield from get_args(union)


def test_extremes_are_refused_or_finite():
    """A decoder lets through no number that is not finite."""
    for union in UNIONS.values():
        decoder = msgspec.msgpack.Decoder(union)
        for cls in get_args(union):
            tag = cls.__struct_config__.tag
            for field in numbers_of(cls):
                for value in EXTREMES:
                    try:
                        got = decoder.decode(msgspec.msgpack.encode({"type": tag, field.name: value}))
                    except (msgspec.MsgspecError, RecursionError):
                        continue
                    kept = getattr(got, field.name)
                    if isinstance(kept, float) and cls not in (Call, TimeFunction, Returned):
                        assert math.isfinite(kept), (cls, field.name)


def test_polls_are_clamped():
    assert [poll_ms(value) for value in (-1.0, 0.0)] == [0, 0]
    assert 0 < poll_ms(math.inf) == poll_ms(1e300) == poll_ms(math.nan) < 2**31


OPENINGS = [
    {"session_timeout_s": 3e6},
    {"session_timeout_s": math.inf},
    {"session_timeout_s": math.nan},
    {"wait_s": math.nan},
    {"wait_s": math.inf},
    {"wait_s": 1e12},
]


def test_no_opening_ends_a_box():
    with Server(port=0, silent=True) as server, zmq.Context() as context:
        for values in OPENINGS:
            with context.socket(zmq.DEALER) as sock:
                sock.setsockopt(zmq.LINGER, 0)
                sock.connect(f"tcp://127.0.0.1:{server.port}")
                body = msgspec.msgpack.encode({"type": "open", "client": "c", **values})
                sock.send_multipart([pack_header(MessageKind.REQUEST, request_id=1), body])
                assert sock.poll(60_000), values
                frames = sock.recv_multipart()
                if values != OPENINGS[0]:  # 3,000,000 s are long, but a time
                    assert isinstance(decode_error(frames), ProtocolError)
        open_session("127.0.0.1", server.port, wait_s=60).close()


def test_no_message_ends_a_box():
    """Every message with every extreme in every field, from a client with a session."""
    with Server(port=0, silent=True) as server, zmq.Context() as context:
        for cls in get_args(AnyMessage):
            with context.socket(zmq.DEALER) as sock:
                sock.setsockopt(zmq.LINGER, 0)
                sock.connect(f"tcp://127.0.0.1:{server.port}")
                opened = public_codec.encode(OpenSession("c"), MessageKind.REQUEST, request_id=1)
                sock.send_multipart(opened)
                for field in numbers_of(cls):
                    for value in EXTREMES:
                        if cls is not OpenSession or field.name != "session_timeout_s":
                            body = {"type": cls.__struct_config__.tag, "client": "c", field.name: value}
                            sock.send_multipart(
                                [pack_header(MessageKind.REQUEST, request_id=2), msgspec.msgpack.encode(body)]
                            )
                while sock.poll(20):
                    sock.recv_multipart()
        assert server.is_alive
        open_session("127.0.0.1", server.port, wait_s=60).close()


def test_no_message_ends_a_tracker():
    with Tracker(port=0, silent=True) as tracker, zmq.Context() as context:
        for cls in (*get_args(tracker_messages.FromBox), *get_args(tracker_messages.FromClient)):
            with context.socket(zmq.DEALER) as sock:
                sock.setsockopt(zmq.LINGER, 0)
                sock.connect(f"tcp://127.0.0.1:{tracker.port}")
                for field in numbers_of(cls):
                    for value in EXTREMES:
                        body = {"type": cls.__struct_config__.tag, "peer": "p", field.name: value}
                        sock.send_multipart([pack_header(MessageKind.NOTE), msgspec.msgpack.encode(body)])
                while sock.poll(20):
                    sock.recv_multipart()
        assert tracker.is_alive
        connect_tracker("127.0.0.1", tracker.port, timeout_s=60).close()
