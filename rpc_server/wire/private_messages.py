"""Messages between a box's supervisor and its executors, over their private socket."""

from __future__ import annotations

import msgspec

from rpc_server.wire.bounds import Label, Seconds, Secret
from rpc_server.wire.codec import Codec, Limits
from rpc_server.wire.messages import Data, Need


class Hello(msgspec.Struct, frozen=True, tag="hello"):
    """Executor → supervisor, once warm.
    `lane` and `lane_token` let a client on this machine in (see lane.py)."""

    lane: Label = ""
    lane_token: Secret = b""


class LaneOpened(msgspec.Struct, frozen=True, tag="lane_opened"):
    """Executor → supervisor: the client is on the lane."""


class Fetch(msgspec.Struct, frozen=True, tag="fetch"):
    """Executor → supervisor: send me this blob (Data with the bytes as its only buffer) or Need."""

    digest: Label


class Phase(msgspec.Struct, frozen=True, tag="phase"):
    """Executor → supervisor: what the call under way does now; `timeout_s` restarts its deadline."""

    name: Label
    timeout_s: Seconds | None = None


AnyPrivate = Hello | LaneOpened | Fetch | Phase | Data | Need

private_codec: Codec[AnyPrivate] = Codec(AnyPrivate, Limits(max_buffer=1 << 30))
