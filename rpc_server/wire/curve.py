"""CurveZMQ on our sockets: both ends prove who they are, and what they say is encrypted.

CurveZMQ (RFC 26 of the ZeroMQ project): Curve25519 keys, authenticated encryption, fresh keys for each connection.
The other end must be known beforehand: servers by the keys in `known` or by a tracker's word, clients by `authorized`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

import zmq

from rpc_server.errors import KeyFileError
from rpc_server.wire.keys import KeyPair, KeyRing, Principal, from_curve, to_curve

logger = logging.getLogger("rpc_server")

_DOMAIN = "tunefarm"


@dataclass(frozen=True, slots=True)
class PeerKeys:
    """A client's keys: its own key pair, and the key it expects of the other end."""

    identity: KeyPair
    server: str


def keys_for(ring: KeyRing | None, address: str, server: str = "") -> PeerKeys | None:
    """The keys to connect to "host:port" with.
    None for a connection without keys, because the address is not among the known ones. `server` is its key where a
    tracker told it. Raises KeyFileError when a key is expected of it but this machine has none of its own."""
    if ring is None and not server:
        return None
    expected = server or (ring.known().get(address, "") if ring is not None else "")
    if not expected:
        return None
    identity = ring.identity() if ring is not None else None
    if identity is None:
        raise KeyFileError(
            f"{address} asks for a key, and this machine has none",
            hint="make one with `tunefarm keys new` and have it authorized there",
        )
    return PeerKeys(identity, expected)


def secure_client(sock: zmq.Socket[bytes], keys: PeerKeys | None) -> None:
    """Call before connect."""
    if keys is not None:
        sock.curve_secretkey = to_curve(keys.identity.secret)
        sock.curve_publickey = to_curve(keys.identity.public)
        sock.curve_serverkey = to_curve(keys.server)


class KeyAuthenticator:
    """Lets in, on the server sockets of a context, those whom `admit` names. A context manager.

    `admit` gets a public key and returns who holds it, or None. It is called in a thread of its own for every new
    connection, and by `who` for messages. Whoever is no longer admitted is unknown there.
    """

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], identity: KeyPair, admit: Callable[[str], Principal | None]
    ) -> None:
        from zmq.auth.thread import ThreadAuthenticator  # it imports asyncio, which nobody without keys waits for

        self._identity = identity
        self._admit = admit
        self._authenticator = ThreadAuthenticator(context)

    def __enter__(self) -> KeyAuthenticator:
        self._authenticator.start()
        self._authenticator.configure_curve_callback(domain=_DOMAIN, credentials_provider=self)
        return self

    def __exit__(self, *_: object) -> None:
        self._authenticator.stop()

    def guard(self, sock: zmq.Socket[bytes]) -> None:
        """Call before bind."""
        sock.curve_server = True
        sock.curve_secretkey = to_curve(self._identity.secret)
        sock.zap_domain = _DOMAIN.encode()

    def lookup(self, public: str) -> Principal | None:
        """Who holds a key, if its holder is let in now. Raises KeyFileError for a damaged list."""
        return self._admit(public)

    def callback(self, domain: str, key: bytes) -> bool:
        """For the authenticator."""
        try:
            public = from_curve(key)
            principal = self._admit(public)
        except KeyFileError as error:  # a damaged list lets nobody in
            logger.error("%s", error)
            return False
        if principal is None:
            logger.warning("turned away a connection: key %s is not authorized", public)
        return principal is not None

    def who(self, frame: zmq.Frame) -> Principal | None:
        """Who sent a message, by its first frame."""
        try:
            return self._admit(from_curve(str(frame.get("User-Id"))))
        except KeyFileError as error:
            logger.error("%s", error)
            return None
