"""Bytes on the wire: one message is a list of frames `[header, body, buffer, ...]`.

The header is 24 fixed bytes, the body one msgpack-encoded struct out of a closed union. Each buffer is raw bytes (an
array's chunk, a blob's chunk) that are never copied into the body. Nothing here does I/O: frames come from and go to a
ZeroMQ socket elsewhere. Every limit is checked before a byte is decoded.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from compiler.errors import TunefarmError, error_from_kind
from rpc_server.errors import ProtocolError, RemoteError
from rpc_server.wire.plain_text import plainly

PROTOCOL_VERSION = 1
MAGIC = b"TFRM"

Buffer = bytes | bytearray | memoryview
T = TypeVar("T")
U = TypeVar("U")

# magic, version, kind, address, buffers, request id, timeout in ms, reserved
_HEADER = struct.Struct("<4sBBBBQII")
HEADER_SIZE = _HEADER.size
_MAX_TIMEOUT_MS = 2**32 - 1
_MAX_ERROR_TEXT = 16_384


class MessageKind(IntEnum):
    """The role of a message. Every REQUEST is answered by one REPLY or one ERROR."""

    REQUEST = 1
    REPLY = 2
    ERROR = 3
    NOTE = 4  # expects no answer


class Address(IntEnum):
    """Who handles a request that arrives at a box.

    PEER: whoever the connection leads to (a box's supervisor, the tracker). EXECUTOR: the session's executor.
    TRIAL: the executor too, and if the request ends it, that is the answer: a failed trial.
    """

    PEER = 0
    EXECUTOR = 1
    TRIAL = 2


class Header(NamedTuple):
    kind: MessageKind
    address: Address
    buffers: int
    request_id: int
    timeout_ms: int  # 0: no deadline asked for


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes in bytes. A message that breaks one is a ProtocolError and is not decoded."""

    max_body: int = 1 << 20
    max_buffer: int = 4 << 20
    max_buffers: int = 16

    @property
    def max_frames(self) -> int:
        return 2 + self.max_buffers


DEFAULT_LIMITS = Limits()


class ErrorData(msgspec.Struct, frozen=True):
    """An error as data; `detail` holds JSON-like values only."""

    kind: str
    message: str
    hint: str | None = None
    detail: dict[str, Any] = {}


class Message(NamedTuple, Generic[T]):
    header: Header
    body: T
    buffers: list[memoryview]


_encoder = msgspec.msgpack.Encoder()
_error_decoder = msgspec.msgpack.Decoder(ErrorData)


def timeout_to_ms(seconds: float | None) -> int:
    """A header's timeout field: milliseconds, rounded up; None, 0, negative and not finite mean none."""
    if seconds is None or not math.isfinite(seconds) or seconds <= 0:
        return 0
    return min(max(1, math.ceil(seconds * 1000)), _MAX_TIMEOUT_MS)


def pack_header(
    kind: MessageKind, address: Address = Address.PEER, *, buffers: int = 0, request_id: int = 0, timeout_ms: int = 0
) -> bytes:
    return _HEADER.pack(MAGIC, PROTOCOL_VERSION, kind, address, buffers, request_id, timeout_ms, 0)


def read_header(frame: Buffer) -> Header:
    """Read the first frame. Raises ProtocolError for anything but a header of this protocol's version."""
    if len(frame) != HEADER_SIZE:
        raise ProtocolError(f"a message header is {HEADER_SIZE} bytes, this one is {len(frame)}")
    magic, version, kind, address, buffers, request_id, timeout_ms, reserved = _HEADER.unpack(frame)
    if magic != MAGIC:
        raise ProtocolError("the peer does not speak tunefarm's protocol", hint="check the port number")
    if version != PROTOCOL_VERSION:
        raise ProtocolError(
            f"the peer speaks protocol version {version}, this side version {PROTOCOL_VERSION}",
            hint="install the newer release on both sides: pip install --upgrade tunefarm",
        )
    if kind not in _KINDS or address not in _ADDRESSES or reserved:
        raise ProtocolError(f"unknown message kind {kind}, address {address} or reserved field {reserved}")
    return Header(_KINDS[kind], _ADDRESSES[address], buffers, request_id, timeout_ms)


_KINDS = {int(kind): kind for kind in MessageKind}
_ADDRESSES = {int(address): address for address in Address}


def check_frames(frames: Sequence[Buffer], limits: Limits = DEFAULT_LIMITS) -> Header:
    """Check a whole message's shape and sizes without decoding its body; return its header."""
    if not 2 <= len(frames) <= limits.max_frames:
        raise ProtocolError(f"a message has 2 to {limits.max_frames} frames, this one {len(frames)}")
    header = read_header(frames[0])
    if header.buffers != len(frames) - 2:
        raise ProtocolError(f"the header announces {header.buffers} buffers, {len(frames) - 2} came")
    if len(frames[1]) > limits.max_body:
        raise ProtocolError(f"a body of {len(frames[1])} bytes is over the limit of {limits.max_body}")
    for frame in frames[2:]:
        if len(frame) > limits.max_buffer:
            raise ProtocolError(f"a buffer of {len(frame)} bytes is over the limit of {limits.max_buffer}")
    return header


class Codec(Generic[T]):
    """Encodes and decodes the messages of one closed union of tagged msgspec structs.

    `Codec(Hello | Bye)`; anything outside the union is a ProtocolError on both sides.
    """

    def __init__(self, union: Any, limits: Limits = DEFAULT_LIMITS) -> None:
        self.limits = limits
        self._decoder: msgspec.msgpack.Decoder[T] = msgspec.msgpack.Decoder(union)

    def encode(
        self, body: T, kind: MessageKind = MessageKind.REQUEST, *, request_id: int = 0, address: Address = Address.PEER,
        timeout_s: float | None = None, buffers: Sequence[Buffer] = (),
    ) -> list[Buffer]:  # fmt: skip
        """The frames of one message. Raises ProtocolError when it would break a limit."""
        payload = _encoder.encode(body)
        header = pack_header(
            kind, address, buffers=len(buffers), request_id=request_id, timeout_ms=timeout_to_ms(timeout_s)
        )
        if len(payload) > self.limits.max_body or len(buffers) > self.limits.max_buffers:
            size = f"{len(payload)} bytes, {len(buffers)} buffers"
            raise ProtocolError(f"{type(body).__name__} does not fit in a message: {size}")
        return [header, payload, *buffers]

    def decode_body(self, frame: Buffer) -> T:
        """Decode a body frame alone. Raises ProtocolError when it is no member of the union."""
        try:
            return self._decoder.decode(frame)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            hint = "is it a tracker where a server is meant, or one of another version? check host and port"
            raise ProtocolError(f"not a message of this protocol: {error}", hint=hint) from None

    def decode(self, frames: Sequence[Buffer]) -> Message[T]:
        """Decode a message. An ERROR message raises the error it carries; a bad one raises ProtocolError."""
        header = check_frames(frames, self.limits)
        if header.kind is MessageKind.ERROR:
            raise decode_error(frames)
        return Message(header, self.decode_body(frames[1]), [memoryview(frame) for frame in frames[2:]])


def expect(kind: type[U], said: object) -> U:
    """Return a peer's message, if it is of the kind `kind`, the only valid answer.
    Raises ProtocolError for anything else."""
    if isinstance(said, kind):
        return said
    raise ProtocolError(
        f"the peer answered with {type(said).__name__} instead of {kind.__name__}",
        hint="it may be another program, or another version of tunefarm",
    )


def only_buffer(message: Message[Any], nbytes: int | None = None) -> memoryview:
    """The one buffer of an answer, which has `nbytes` bytes. Raises ProtocolError where it has not."""
    if len(message.buffers) != 1 or nbytes not in (None, len(message.buffers[0])):
        sizes = ", ".join(str(len(buffer)) for buffer in message.buffers) or "no"
        raise ProtocolError(f"the peer's answer has {sizes} bytes instead of {'some' if nbytes is None else nbytes}")
    return message.buffers[0]


_PAGE = 3 << 18


def that_fit(items: Iterable[U]) -> tuple[U, ...]:
    """Return the first items of a page that fit in one message of a MiB; one at least.
    They share it with what is beside them."""
    found: list[U] = []
    left = _PAGE
    for item in items:
        left -= len(_encoder.encode(item))
        if left < 0 and found:
            break
        found.append(item)
    return tuple(found)


def encode_error(error: BaseException, request_id: int = 0) -> list[Buffer]:
    """The frames of an ERROR message. An exception that is no TunefarmError travels as a RemoteError."""
    if not isinstance(error, TunefarmError):
        error = RemoteError(f"{type(error).__name__}: {error}")
    body = ErrorData(
        kind=type(error).kind,
        message=_clip(error.message),
        hint=None if error.hint is None else _clip(error.hint),
        detail=_plain_mapping(error.detail),
    )
    return [pack_header(MessageKind.ERROR, request_id=request_id), _encoder.encode(body)]


def decode_error(frames: Sequence[Buffer]) -> TunefarmError:
    """The error an ERROR message carries, as an instance of its class.

    Raises ProtocolError if it is malformed.
    """
    try:
        body = _error_decoder.decode(frames[1])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"the peer sent an unreadable error: {error}") from None
    body = plainly(body)
    return error_from_kind(body.kind, body.message, hint=body.hint, detail=body.detail)


def total_size(frames: Iterable[Buffer]) -> int:
    return sum(len(frame) for frame in frames)


def _clip(text: str) -> str:
    return text if len(text) <= _MAX_ERROR_TEXT else text[:_MAX_ERROR_TEXT] + " […]"


def _plain(value: Any, depth: int) -> Any:
    match value:
        case None | bool() | float():
            return value
        case int():
            return value if -(2**63) <= value < 2**64 else str(value)
        case str():
            return _clip(value)
        case Mapping() if depth > 0:
            return {str(key): _plain(item, depth - 1) for key, item in list(value.items())[:64]}
        case list() | tuple() if depth > 0:
            return [_plain(item, depth - 1) for item in value[:256]]
        case _:
            return _clip(repr(value))


def _plain_mapping(detail: Mapping[str, Any]) -> dict[str, Any]:
    plain = _plain(detail, 4)
    assert isinstance(plain, dict)
    return plain
