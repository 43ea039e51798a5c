"""Errors of the RPC layer. Each `kind` travels over the wire and is raised as the same class there."""

from __future__ import annotations

from compiler.errors import TunefarmError


class RPCError(TunefarmError, kind="rpc"):
    """Base of what can go wrong between a client and a device box."""


class ConnectError(RPCError, ConnectionError, kind="connect"):
    """Nothing usable answers at the address: refused, unreachable, or silent past the time limit."""


class KeyFileError(RPCError, ValueError, kind="keys"):
    """A key that is none, or a file of keys that cannot be used."""


class NotPermitted(RPCError, PermissionError, kind="not_permitted"):
    """The holder of this key may connect, but not do this."""


class ProtocolError(RPCError, kind="protocol"):
    """The peer sent bytes that are no message of this protocol, or broke one of its limits."""


class SessionRefused(RPCError, kind="session_refused"):
    """The box does not open a session now: it is busy, shutting down, or serves another key."""


class LeaseRefused(SessionRefused, kind="lease_refused"):
    """The lease token is unknown to the box, expired or revoked."""


class SessionClosed(RPCError, kind="session_closed"):
    """The session is over: closed, timed out, its lease ended, or the connection is gone."""


class DeadlineExceeded(RPCError, TimeoutError, kind="deadline_exceeded"):
    """A call ran past its deadline; its executor was killed."""


class Cancelled(RPCError, kind="cancelled"):
    """The session's calls were cancelled: the executor that ran them was killed.
    Those that waited never started."""


class OutOfMemory(RPCError, MemoryError, kind="out_of_memory"):
    """A call needed more memory than its executor may have."""


class ExecutorCrashed(RPCError, kind="executor_crashed"):
    """The process running a session ended under it.

    `detail` holds `exit_code` (int, or None when a signal ended it), `signal` (a name such as "SIGSEGV", or
    None), `call` (what was under way) and `stderr` (its last lines).
    """

    @property
    def exit_code(self) -> int | None:
        value = self.detail.get("exit_code")
        return value if isinstance(value, int) else None

    @property
    def signal(self) -> str | None:
        value = self.detail.get("signal")
        return value if isinstance(value, str) else None

    @property
    def call(self) -> str:
        return str(self.detail.get("call") or "")

    @property
    def stderr(self) -> str:
        return str(self.detail.get("stderr") or "")


class DeviceLost(RPCError, kind="device_lost"):
    """A device that hangs or vanished; nothing more can run on it until somebody looks at the box."""


class HandleError(RPCError, kind="rpc_handle"):
    """A remote array or module that the session does not have (freed, or lost with a crashed executor)."""


class RemoteFileError(RPCError, kind="remote_file"):
    """A file of the session's folder that is missing, badly named, or could not be read or written."""


class RemoteError(RPCError, kind="remote"):
    """The box failed in a way it has no better name for; `detail["traceback"]` shows where."""


class ServerStartError(RPCError, kind="server_start"):
    """A server could not start: a port in use, a refused option, a missing folder."""
