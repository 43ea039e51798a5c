"""Messages between a relay and the boxes behind it, encrypted where keys are used. All are notes."""

from __future__ import annotations

from typing import Annotated

import msgspec
import zmq
from msgspec import Meta

from rpc_server.wire.codec import Codec, Limits
from rpc_server.wire.sockets import Liveness, prepare

DEFAULT_RELAY_PORT = 9290
HEARTBEAT_S = 8.0
SILENCE_S = 20.0
"""A box or relay that was not heard for this long counts as gone. There are thousands of boxes, and what dies is mostly
noticed at once, by its connection; the tracker watches boxes more closely."""
_LIVENESS = Liveness(interval_s=0.0, timeout_s=0.0)
LIMITS = Limits(max_body=1 << 16, max_buffer=0, max_buffers=0)
MAX_PASSES = 256

Name = Annotated[str, Meta(min_length=1, max_length=200)]
PassText = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


def prepare_control(sock: zmq.Socket[bytes]) -> None:
    """Options of either end of a box's line. Call before bind or connect.

    ZeroMQ's own heartbeats are left out: with thousands of connections it spends its time looking for their timers.
    """
    prepare(sock, _LIVENESS, LIMITS)
    sock.setsockopt(zmq.TCP_KEEPALIVE_IDLE, 60)
    sock.setsockopt(zmq.TCP_KEEPALIVE_INTVL, 15)
    sock.setsockopt(zmq.TCP_KEEPALIVE_CNT, 3)


class _Struct(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    pass


class BoxPasses(_Struct, frozen=True, tag="HereIAm"):
    """Box → relay, every `HEARTBEAT_S` and when something changes: all passes that lead to it now."""

    box: Name
    passes: Annotated[tuple[PassText, ...], Meta(max_length=MAX_PASSES)] = ()


class PassesHeard(_Struct, frozen=True, tag="HereToo"):
    """Relay → box: the passes have arrived."""


class BoxTurnedAway(_Struct, frozen=True, tag="GoAway"):
    """Relay → box: the relay does not serve this box."""

    reason: Annotated[str, Meta(max_length=2000)]


class CallBack(_Struct, frozen=True):
    """Relay → box: a client with one of your passes is here.
    Dial me and show this pass, which is good once."""

    passed: PassText


to_relay: Codec[BoxPasses] = Codec(BoxPasses, LIMITS)
to_box: Codec[PassesHeard | BoxTurnedAway | CallBack] = Codec(PassesHeard | BoxTurnedAway | CallBack, LIMITS)
