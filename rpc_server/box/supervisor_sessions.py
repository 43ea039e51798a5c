"""The sessions of a supervisor, and the moves that its rules use; `supervisor_state` has the rules.

Nothing here decides when. `emit` collects the commands of a move.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable

from rpc_server.box import supervisor_events as events
from rpc_server.box.executor_pool import ExecutorPool, ExecutorState, PooledExecutor, WantedExecutor
from rpc_server.box.supervisor_records import BoxSession, EndedSession, SessionRequest, SupervisorConfig, WaitingClient
from rpc_server.errors import ExecutorCrashed, RPCError, SessionClosed
from rpc_server.farm_link.leases import LeaseReport
from rpc_server.machine.crash import CrashVerdict, ExitReport
from rpc_server.wire.messages import SessionEnded

_REMEMBERED_ENDS = 1024


class Sessions:
    """Open sessions, ended ones whose executors still die, and clients that wait for a session."""

    def __init__(
        self,
        config: SupervisorConfig,
        name_call: Callable[[events.Frames], str],
        allowed: Callable[[events.Frames], float] = lambda _frames: 0.0,
    ) -> None:
        self.config = config
        self.pool = ExecutorPool(config.pool)
        self.crashes = 0
        self._name_call = name_call
        self._allowed = allowed
        self._sessions: dict[int, BoxSession] = {}
        self._by_conn: dict[bytes, BoxSession] = {}
        self._over: dict[bytes, EndedSession] = {}  # connections whose session ended
        self._leaving: dict[int, LeaseReport | None] = {}  # ended, but their executors still die
        self._waiting: deque[WaitingClient] = deque()
        self._next_session = 1
        self._stopping = ""
        self._out: list[events.Command] = []

    def has_session(self, conn: bytes) -> bool:
        return conn in self._by_conn

    def conn_of(self, session: int) -> bytes | None:
        """The connection of a session that is open."""
        found = self._sessions.get(session)
        return None if found is None else found.conn

    def why_over(self, conn: bytes) -> RPCError:
        """Return what to tell a client that has no session."""
        ended = self._over.get(conn)
        if ended is not None:
            return SessionClosed(f"the session is over: {ended.note.reason}", hint="connect again")
        return SessionClosed("no session is open on this connection", hint="open one first")

    def running(self) -> list[int]:
        """Executors with a call under way, or perhaps one: the ones whose memory is worth watching."""
        return [s.executor for s in self._sessions.values() if (s.queue or s.on_lane) and s.executor is not None]

    def session_names(self) -> tuple[str, ...]:
        return tuple(session.request.client for session in self._sessions.values())

    def _session_of(self, number: int) -> BoxSession | None:
        """The session a running executor serves."""
        executor = self.pool.busy(number)
        return None if executor is None or executor.session is None else self._sessions[executor.session]

    def _wanted(self) -> WantedExecutor:
        orphaned = sum(session.executor is None for session in self._sessions.values())
        room = self.config.max_sessions - len(self._sessions) - len(self._leaving)
        return WantedExecutor(orphaned, max(0, min(len(self._waiting), room)))

    def _attach(self, session: BoxSession, executor: PooledExecutor) -> None:
        session.executor = executor.number
        self._emit(events.BeginSession(executor.number, session.number))

    def _start_head(self, session: BoxSession, now: float) -> None:
        session.head_started = session.head_since = now
        session.phase = ""
        if session.queue:
            session.head_timeout = session.queue[0].timeout_s or self.config.call_timeout_s

    def _head_deadline(self, session: BoxSession) -> float | None:
        if not session.queue or session.head_timeout is None or session.executor is None:
            return None
        return session.head_since + session.head_timeout if self.pool.busy(session.executor) else None

    def _stuck_at(self, session: BoxSession) -> float | None:
        executor = self.pool.get(session.executor)
        if executor is None or executor.state is not ExecutorState.DYING:
            return None
        return executor.since + self.config.die_timeout_s

    def _restart(self, session: BoxSession, now: float) -> None:
        """Keep the trials that wait for a fresh executor.
        Other requests depend on state that died with the old one."""
        kept: deque[SessionRequest] = deque()
        for request in session.queue:
            if request.trial:
                kept.append(request)
            else:
                session.queued_bytes -= request.nbytes
                self._emit(events.Fail(session.conn, request.request_id, arrays_lost()))
        session.queue = kept
        self._start_head(session, now)

    def _end_all(self, sessions: Iterable[BoxSession], why: RPCError, now: float) -> None:
        for session in list(sessions):
            self._end(session, why, now)

    def _end(
        self, session: BoxSession, why: RPCError, now: float, *, tell: bool = True, report: ExitReport | None = None,
        verdict: CrashVerdict = CrashVerdict.NONE,
    ) -> None:  # fmt: skip
        """End a session: fail pending requests, free its executor, and remember the reason for late requests."""
        for request in session.queue:
            self._emit(events.Fail(session.conn, request.request_id, why))
        del self._sessions[session.number]
        del self._by_conn[session.conn]
        note = SessionEnded(kind=type(why).kind, reason=why.message)
        self._over[session.conn] = EndedSession(note, report, verdict)
        if len(self._over) > _REMEMBERED_ENDS:
            self._over.pop(next(iter(self._over)))
        if tell:
            self._emit(events.SendNote(session.conn, note))
        self._log(logging.INFO, f"session {session.number} of {session.request.client} ended: {why.message}")
        self._leaving[session.number] = (
            None if session.lease is None else LeaseReport(session.lease, "closed", why.message)
        )
        if self.pool.get(session.executor) is None:
            self._left(session.number)
        self._emit(*self.pool.kill(session.executor, CrashVerdict.CLOSED, now))

    def _left(self, number: int) -> None:
        """Nothing of an ended session runs any more, so the device is free for the next."""
        report = self._leaving.pop(number, None)
        self._emit(events.ForgetSession(number))
        if report is not None:
            self._emit(events.SupervisorReport(report))

    def _emit(self, *commands: events.Command) -> None:
        self._out.extend(commands)

    def _log(self, level: int, text: str) -> None:
        self._emit(events.Log(level, text))


def arrays_lost() -> RPCError:
    return ExecutorCrashed("the executor crashed before this call: its arrays are gone")
