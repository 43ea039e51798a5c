"""How clients and boxes prove at a relay what they may: passes, the first fixed bytes, and addresses.

The tracker makes a pass from a lease's token for the client's address, and the box makes it for the relay. Only they
know the token, and it cannot be computed from the pass. A box without a tracker has one pass, made of its key. Both
ends know the pass's secret. Only a proof of it travels, made with a number that the relay drew for this connection.
An overheard proof cannot be used again.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import struct
from dataclasses import dataclass, field
from enum import IntEnum

from rpc_server.errors import ConnectError, ProtocolError

MAGIC = b"TFRL"
_VERSION = 1
_ID_BYTES, _SECRET_BYTES, _NONCE_BYTES, _PROOF_BYTES = 8, 24, 32, 32
_GREETING = struct.Struct(f">4sBH{_NONCE_BYTES}s")  # magic, version, port for boxes, number
_ANSWER = struct.Struct(f">4sc{_ID_BYTES}s{_PROOF_BYTES}s")  # magic, role, id, proof
_VERDICT = struct.Struct(">BH")  # verdict, port

GREETING_SIZE = _GREETING.size
ANSWER_SIZE = _ANSWER.size
VERDICT_SIZE = _VERDICT.size

CLIENT, BOX = b"C", b"B"


class PassVerdict(IntEnum):
    """A relay's answer to a client."""

    WELCOME = 0
    NO_LEASE = 1
    NO_BOX = 2
    BUSY = 3


@dataclass(frozen=True, slots=True)
class RelayPass:
    """A pass for one way through a relay. `text` is its form in addresses and messages."""

    id: bytes
    secret: bytes = field(repr=False)

    @property
    def text(self) -> str:
        return (self.id + self.secret).hex()

    def proof(self, role: bytes, nonce: bytes) -> bytes:
        return hmac.digest(self.secret, role + nonce, "sha256")

    def proves(self, role: bytes, nonce: bytes, proof: bytes) -> bool:
        return hmac.compare_digest(self.proof(role, nonce), proof)


def new_pass() -> RelayPass:
    """A pass for one use."""
    return RelayPass(os.urandom(_ID_BYTES), os.urandom(_SECRET_BYTES))


def pass_of_token(token: str) -> RelayPass:
    """The pass that belongs to a lease's token."""
    return _split(hashlib.sha256(b"tunefarm relay pass\0" + token.encode()).digest())


def pass_of_key(key: str) -> RelayPass:
    """Return the pass to a box that no tracker lends.
    Whoever can name the key that it serves may connect."""
    return _split(hashlib.sha256(b"tunefarm relay key\0" + key.encode()).digest())


def pass_of_text(text: str) -> RelayPass:
    """Raise ProtocolError for what is no pass."""
    try:
        whole = bytes.fromhex(text)
    except ValueError:
        whole = b""
    if len(whole) != _ID_BYTES + _SECRET_BYTES:
        raise ProtocolError("this is not a pass of a relay")
    return _split(whole)


def _split(whole: bytes) -> RelayPass:
    return RelayPass(whole[:_ID_BYTES], whole[_ID_BYTES:])


# --- what is said first ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Greeting:
    """A relay's first words: the port where boxes register, and the number that proofs are made of."""

    port: int
    nonce: bytes

    @classmethod
    def new(cls, port: int) -> Greeting:
        return cls(port, os.urandom(_NONCE_BYTES))

    def to_bytes(self) -> bytes:
        return _GREETING.pack(MAGIC, _VERSION, self.port, self.nonce)

    @classmethod
    def from_bytes(cls, data: bytes) -> Greeting:
        """Raise ProtocolError when no relay of this version is speaking."""
        if len(data) != GREETING_SIZE or not data.startswith(MAGIC):
            raise ProtocolError("no tunefarm relay listens there", hint="check host and port")
        _, version, port, nonce = _GREETING.unpack(data)
        if version != _VERSION:
            raise ProtocolError(
                f"the relay speaks version {version}, this side {_VERSION}",
                hint="install the same tunefarm release on both",
            )
        return cls(port, nonce)


@dataclass(frozen=True, slots=True)
class PassAnswer:
    """The answer to a greeting: who speaks (CLIENT or BOX), which pass it has, and the proof."""

    role: bytes
    id: bytes
    proof: bytes

    @classmethod
    def to(cls, greeting: Greeting, role: bytes, given: RelayPass) -> bytes:
        return _ANSWER.pack(MAGIC, role, given.id, given.proof(role, greeting.nonce))

    @classmethod
    def from_bytes(cls, data: bytes) -> PassAnswer:
        """Raise ProtocolError."""
        magic, role, name, proof = _ANSWER.unpack(data)
        if magic != MAGIC or role not in (CLIENT, BOX):
            raise ProtocolError("not an answer to a relay's greeting")
        return cls(role, name, proof)


def verdict_bytes(verdict: PassVerdict, port: int = 0) -> bytes:
    return _VERDICT.pack(verdict, port)


def read_verdict(data: bytes) -> tuple[PassVerdict, int]:
    """Raise ProtocolError."""
    number, port = _VERDICT.unpack(data)
    try:
        return PassVerdict(number), port
    except ValueError:
        raise ProtocolError(f"a relay's verdict of {number} is unknown") from None


# --- addresses ---------------------------------------------------------------------------------------------
#
# NAME@RELAY:PORT is a box behind a relay; in a grant, the lease's pass stands for the name.


def split_via(host: str) -> tuple[str, str]:
    """A host as addresses have it: the name or pass before its relay ("" for none), and the host to dial."""
    before, _, after = host.rpartition("@")
    return before, after


def via(name: str, relay: tuple[str, int]) -> str:
    """The address of the box `name` behind a relay."""
    host, port = relay
    whole = f"{name}@{host}"
    return f"[{whole}]:{port}" if ":" in whole else f"{whole}:{port}"


def is_relayed(address: str) -> bool:
    return "@" in address


def granted_address(address: str, token: str) -> str:
    """A box's address for the holder of a lease's token. Raises ConnectError for what is no address."""
    if not is_relayed(address):
        return address
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal():
        raise ConnectError(f"{address!r} is no address")
    _, relay = split_via(host.removeprefix("[").removesuffix("]"))
    return via(pass_of_token(token).text, (relay, int(port)))


def shown_address(host: str, port: int) -> str:
    """An address for people: without the pass, which is nobody's business."""
    name, dialled = split_via(host)
    return f"relay {dialled}:{port}" if name else f"{dialled}:{port}"
