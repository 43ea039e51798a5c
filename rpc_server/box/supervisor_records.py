"""The supervisor's configuration and the records its state is made of."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from rpc_server.box.executor_pool import PoolConfig
from rpc_server.box.supervisor_events import Frames
from rpc_server.machine.crash import CrashVerdict, ExitReport
from rpc_server.wire.messages import OpenSession, SessionEnded


@dataclass(frozen=True, slots=True)
class SupervisorConfig:
    """Limits: times in seconds, sizes in bytes.
    `call_timeout_s` applies to calls that name none; None: no limit.

    An executor that does not die within `die_timeout_s` of SIGKILL is stuck in a driver. Its session ends and the
    device counts as lost.
    """

    box: str = "box"
    key: str = ""
    max_sessions: int = 1
    leases_required: bool = False
    call_timeout_s: float | None = None
    max_wait_s: float = 3600.0
    max_waiting: int = 256
    max_pending: int = 4096
    max_pending_bytes: int = 64 << 20
    memory_limit: int | None = None
    disk_limit: int | None = None
    die_timeout_s: float = 10.0
    pool: PoolConfig = field(default_factory=PoolConfig)


@dataclass(slots=True)
class SessionRequest:
    request_id: int
    frames: Frames
    nbytes: int
    timeout_s: float | None
    trial: bool


@dataclass(slots=True)
class BoxSession:
    """An open session.
    `head_started` is when the head of `queue` began; its deadline counts from `head_since`.

    `secret` lets its client cancel. `measuring`: the last answered request was a trial. `on_lane`: the client may
    have calls under way that the supervisor does not see.
    """

    number: int
    conn: bytes
    request: OpenSession
    lease: str | None
    since: float
    secret: bytes = b""
    executor: int | None = None
    queue: deque[SessionRequest] = field(default_factory=deque)
    queued_bytes: int = 0
    head_started: float = 0.0
    head_since: float = 0.0
    head_timeout: float | None = None
    phase: str = ""
    measuring: bool = False
    on_lane: bool = False

    @property
    def ends_at(self) -> float | None:
        timeout = self.request.session_timeout_s
        return self.since + timeout if timeout > 0 else None


@dataclass(frozen=True, slots=True)
class EndedSession:
    """The record of a session that ended: why, and how its executor did if that was the reason."""

    note: SessionEnded
    report: ExitReport | None = None
    verdict: CrashVerdict = CrashVerdict.NONE


@dataclass(frozen=True, slots=True)
class WaitingClient:
    conn: bytes
    request_id: int
    request: OpenSession
    lease: str | None
    until: float
