"""Events and commands of a supervisor: the vocabulary of `supervisor_state`.

`frames` are opaque here: whole messages on their way through, kept by reference and never decoded.
Connections are ZeroMQ routing ids; executors and sessions are numbered from 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from compiler.errors import TunefarmError
from rpc_server.farm_link.leases import LeaseReport
from rpc_server.machine.crash import ExitReport
from rpc_server.wire.codec import Buffer
from rpc_server.wire.messages import AnyReply, OpenSession, SessionEnded

Frames = Sequence[Buffer]


# --- events ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OpenAsked:
    """`lease`: the id of the lease the request's token opens, or None."""

    conn: bytes
    request_id: int
    request: OpenSession
    lease: str | None = None


@dataclass(frozen=True, slots=True)
class CloseAsked:
    conn: bytes
    request_id: int


@dataclass(frozen=True, slots=True)
class CancelAsked:
    """Comes on a connection of its own; `secret` is that of `session`."""

    conn: bytes
    request_id: int
    session: int
    secret: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class CallAsked:
    """A request for the session's executor. `trial`: if the executor ends during it, that is a result."""

    conn: bytes
    request_id: int
    frames: Frames
    nbytes: int
    timeout_s: float | None = None
    trial: bool = False


@dataclass(frozen=True, slots=True)
class ConnectionLost:
    conn: bytes
    reason: str = "the client's connection is gone"


@dataclass(frozen=True, slots=True)
class ExecutorReady:
    """`lane` and `lane_token` are for the client of the session it will serve."""

    executor: int
    pid: int
    lane: str = ""
    lane_token: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class ExecutorOnLane:
    """The session's client talks to it directly from now on, unseen."""

    executor: int


@dataclass(frozen=True, slots=True)
class LaneLostAsked:
    """The client found the lane to executor `pid` closed; `frames` names the call it waits for."""

    conn: bytes
    request_id: int
    pid: int
    frames: Frames


@dataclass(frozen=True, slots=True)
class ExecutorReplied:
    executor: int
    request_id: int
    frames: Frames


@dataclass(frozen=True, slots=True)
class ExecutorPhase:
    """The call under way entered a phase; `timeout_s` restarts its deadline."""

    executor: int
    name: str
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True)
class ExecutorMemory:
    """A sample of an executor's resident bytes."""

    executor: int
    resident: int


@dataclass(frozen=True, slots=True)
class ExecutorDisk:
    """A sample of what its session's folder takes, in bytes."""

    executor: int
    used: int


@dataclass(frozen=True, slots=True)
class ExecutorBrokeProtocol:
    executor: int
    reason: str


@dataclass(frozen=True, slots=True)
class ExecutorExited:
    executor: int
    report: ExitReport


@dataclass(frozen=True, slots=True)
class LeaseFinished:
    lease: str
    reason: str


@dataclass(frozen=True, slots=True)
class KeyTakenBack:
    """The key that a connection came with opens no sessions any more."""

    conn: bytes
    reason: str


@dataclass(frozen=True, slots=True)
class TimePassed:
    pass


@dataclass(frozen=True, slots=True)
class ShutdownAsked:
    reason: str


Event = (
    OpenAsked
    | CloseAsked
    | CancelAsked
    | CallAsked
    | ConnectionLost
    | ExecutorReady
    | ExecutorOnLane
    | LaneLostAsked
    | ExecutorReplied
    | ExecutorPhase
    | ExecutorMemory
    | ExecutorDisk
    | ExecutorBrokeProtocol
    | ExecutorExited
    | LeaseFinished
    | KeyTakenBack
    | TimePassed
    | ShutdownAsked
)


# --- commands ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Spawn:
    executor: int


@dataclass(frozen=True, slots=True)
class Kill:
    """SIGKILL the executor's process group."""

    executor: int


@dataclass(frozen=True, slots=True)
class BeginSession:
    """Make the session's folder if it is not there, and tell the executor to work in it."""

    executor: int
    session: int


@dataclass(frozen=True, slots=True)
class ForgetSession:
    """Delete the session's folder: nothing runs in it any more."""

    session: int


@dataclass(frozen=True, slots=True)
class ToExecutor:
    executor: int
    frames: Frames


@dataclass(frozen=True, slots=True)
class ToClient:
    conn: bytes
    frames: Frames


@dataclass(frozen=True, slots=True)
class AnswerRequest:
    conn: bytes
    request_id: int
    reply: AnyReply


@dataclass(frozen=True, slots=True)
class Fail:
    conn: bytes
    request_id: int
    error: TunefarmError


@dataclass(frozen=True, slots=True)
class SendNote:
    """A note that answers nothing."""

    conn: bytes
    note: SessionEnded


@dataclass(frozen=True, slots=True)
class SupervisorReport:
    """For the tracker."""

    report: LeaseReport


@dataclass(frozen=True, slots=True)
class Log:
    level: int
    text: str


Command = (
    Spawn
    | Kill
    | BeginSession
    | ForgetSession
    | ToExecutor
    | ToClient
    | AnswerRequest
    | Fail
    | SendNote
    | SupervisorReport
    | Log
)
