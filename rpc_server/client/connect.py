"""The client of a device box: `connect(host, port)` gives an `RPCSession`."""

from __future__ import annotations

import os
from collections.abc import Sequence

from rpc_server.client.connection import CONNECT_TIMEOUT_S, SPIN_S, Connection, greeting
from rpc_server.client.dial import Ahead
from rpc_server.client.session import RPCSession
from rpc_server.errors import LeaseRefused, SessionRefused
from rpc_server.machine.user_name import user_at_host
from rpc_server.relay.passes import shown_address
from rpc_server.wire.codec import Buffer, expect
from rpc_server.wire.curve import keys_for
from rpc_server.wire.keys import KeyRing
from rpc_server.wire.messages import BoxInfo, BoxStatus, OpenSession, SessionOpened


def connect(
    url: str, port: int, key: str = "", session_timeout: float = 0,
    session_constructor_args: Sequence[object] | None = None, enable_logging: bool = False, *,
    keys: KeyRing | None = None,
) -> RPCSession:  # fmt: skip
    """Open a session on the server at `url` (a host name or address).

    With `keys`, the connection is encrypted if they hold the server's. `key`: refuse a server that serves another one;
    a relay that listens there leads to the box that serves it.
    `session_timeout`: seconds after which the server ends the session; 0: never. `enable_logging` logs every request.
    `session_constructor_args`, TVM's way to start other kinds of session on the box, is not supported.
    Raises ConnectError when nothing answers, SessionRefused when the box is busy or lent by a tracker.
    """
    if session_constructor_args:
        raise SessionRefused(
            "session_constructor_args starts another kind of session on the box, which tunefarm does not have",
            hint="leave it out",
        )
    return open_session(url, port, key=key, session_timeout=session_timeout, enable_logging=enable_logging, keys=keys)


def open_session(
    host: str, port: int, *, token: str = "", key: str = "", session_timeout: float = 0.0, wait_s: float = 10.0,
    connect_timeout: float = CONNECT_TIMEOUT_S, restart_on_crash: bool = True, call_timeout: float | None = None,
    client: str = "", enable_logging: bool = False, keys: KeyRing | None = None, server_key: str = "",
    ahead: Ahead | None = None,
) -> RPCSession:  # fmt: skip
    """Open a session, with a tracker's lease `token` where the box asks for one. Times in seconds.

    `keys` are this machine's; the connection is encrypted if they hold the server's, or `server_key` gives it.

    `wait_s` bounds the wait for a free executor. `call_timeout` is the deadline of calls (not of `measure`,
    which brings its own). With `restart_on_crash`, a `measure` that kills its executor costs only its trial.
    `client` is how the box names this session to others; default user@host:pid. `ahead` is a connection there that was
    begun already, on which `opening` with the same options may have been said.
    """
    peer = keys_for(keys, shown_address(host, port), server_key)
    request = _open_request(token, key, session_timeout, wait_s, restart_on_crash, client)
    connection = Connection(
        host, port, connect_timeout, keys=peer, first=request, first_timeout_s=wait_s, ahead=ahead, key=key
    )
    try:
        opened = _opened(connection, request, said_ahead=ahead is not None and ahead.said is not None)
    except BaseException:
        connection.close()
        raise

    def dial() -> Connection:
        return Connection(host, port, connect_timeout, keys=peer, key=key)

    return RPCSession(connection, opened, call_timeout, enable_logging, dial)


def opening(
    *, token: str = "", key: str = "", session_timeout: float = 0.0, wait_s: float = 10.0,
    restart_on_crash: bool = True, client: str = "", **_others: object,
) -> list[Buffer]:  # fmt: skip
    """Return what `open_session` with these options says first."""
    return greeting(_open_request(token, key, session_timeout, wait_s, restart_on_crash, client), wait_s)


def _open_request(
    token: str, key: str, session_timeout: float, wait_s: float, restart_on_crash: bool, client: str
) -> OpenSession:
    return OpenSession(
        client=client or _client_name(),
        token=token,
        key=key,
        session_timeout_s=session_timeout,
        wait_s=wait_s,
        restart_on_crash=restart_on_crash,
    )


def _opened(connection: Connection, request: OpenSession, *, said_ahead: bool) -> SessionOpened:
    try:
        opened = connection.wait(1, request.wait_s, spin_s=SPIN_S).body
    except LeaseRefused:
        if not said_ahead:
            raise
        # The box had not heard of the lease then.
        opened = connection.request(request, timeout_s=request.wait_s).body
    return expect(SessionOpened, opened)


def box_status(
    host: str, port: int, connect_timeout: float = CONNECT_TIMEOUT_S, keys: KeyRing | None = None, server_key: str = ""
) -> BoxStatus:
    """Ask a box what it is and who uses it; needs no session."""
    connection = Connection(host, port, connect_timeout, keys=keys_for(keys, shown_address(host, port), server_key))
    try:
        status = connection.request(BoxInfo(), timeout_s=connect_timeout).body
    finally:
        connection.close()
    return expect(BoxStatus, status)


def _client_name() -> str:
    return f"{user_at_host()}:{os.getpid()}"
