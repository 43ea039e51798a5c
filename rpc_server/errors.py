"""Errors of the RPC layer. Each `kind` travels over the wire and is raised as the same class there."""

from __future__ import annotations

from compiler.errors import TunefarmError


class RPCError(TunefarmError):
    """Base of what can go wrong between a client and a device box."""

    kind = "rpc"


class ConnectError(RPCError, ConnectionError):
    """Nothing usable answers at the address: refused, unreachable, or silent past the time limit."""

    kind = "connect"


class KeyFileError(RPCError, ValueError):
    """A key that is none, or a file of keys that cannot be used."""

    kind = "keys"


class NotPermitted(RPCError, PermissionError):
    """The holder of this key may connect, but not do this."""

    kind = "not_permitted"


class ProtocolError(RPCError):
    """The peer sent bytes that are no message of this protocol, or broke one of its limits."""

    kind = "protocol"


class SessionRefused(RPCError):
    """The box does not open a session now: it is busy, shutting down, or serves another key."""

    kind = "session_refused"


class LeaseRefused(SessionRefused):
    """The lease token is unknown to the box, expired or revoked."""

    kind = "lease_refused"


class SessionClosed(RPCError):
    """The session is over: closed, timed out, its lease ended, or the connection is gone."""

    kind = "session_closed"


class DeadlineExceeded(RPCError, TimeoutError):
    """A call ran past its deadline; its executor was killed."""

    kind = "deadline_exceeded"


class Cancelled(RPCError):
    """The session's calls were cancelled: the executor that ran them was killed.
    Those that waited never started."""

    kind = "cancelled"


class OutOfMemory(RPCError, MemoryError):
    """A call needed more memory than its executor may have."""

    kind = "out_of_memory"


class ExecutorCrashed(RPCError):
    """The process running a session ended under it.

    `detail` holds `exit_code` (int, or None when a signal ended it), `signal` (a name such as "SIGSEGV", or
    None), `call` (what was under way) and `stderr` (its last lines).
    """

    kind = "executor_crashed"

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


class DeviceLost(RPCError):
    """A device that hangs or vanished; nothing more can run on it until somebody looks at the box."""

    kind = "device_lost"


class HandleError(RPCError):
    """A remote array or module that the session does not have (freed, or lost with a crashed executor)."""

    kind = "rpc_handle"


class RemoteFileError(RPCError):
    """A file of the session's folder that is missing, badly named, or could not be read or written."""

    kind = "remote_file"


class RemoteError(RPCError):
    """The box failed in a way it has no better name for; `detail["traceback"]` shows where."""

    kind = "remote"


class ServerStartError(RPCError):
    """A server could not start: a port in use, a refused option, a missing folder."""

    kind = "server_start"
