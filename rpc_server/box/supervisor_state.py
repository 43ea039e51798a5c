"""The supervisor's decisions, without I/O: `handle(event, now) -> commands`.

It gives each session a warm executor, and watches deadlines, session limits and leases. It tells whoever waited for
an executor how that ended. `now` is monotonic seconds and never goes back.

An executor answers its requests in order, so of a session's queue only the head is under way. Its deadline counts
from when it became the head.
"""

from __future__ import annotations

import hmac
import logging
from collections import deque
from typing import assert_never

from compiler.errors import TunefarmError
from rpc_server import errors
from rpc_server.box import supervisor_events as events
from rpc_server.box.supervisor_records import BoxSession, SessionRequest, WaitingClient
from rpc_server.box.supervisor_sessions import Sessions, arrays_lost
from rpc_server.farm_link.leases import LeaseReport
from rpc_server.machine.crash import CallUnderWay, CrashVerdict, ExitReport, explain, failed_trial
from rpc_server.wire.messages import REFERENCE_PHASE, Done, Measured, SessionOpened

_LANE_END_S = 10.0  # an executor that closed the lane is killed when it has not ended by then


class SupervisorState(Sessions):
    """Decide as the module describes.
    `name_call(frames)` words a request for crash reports, and is called only then. `allowed(frames)` is how many
    seconds a trial may take in all, whatever its executor says."""

    # --- what the loop asks -------------------------------------------------------------------------------

    def handle(self, event: events.Event, now: float) -> list[events.Command]:
        """Take one event and return what to do, in order."""
        match event:
            case events.CallAsked():
                self._call_asked(event, now)
            case events.ExecutorReplied():
                self._executor_replied(event, now)
            case events.OpenAsked():
                self._open_asked(event, now)
            case events.CloseAsked():
                self._close_asked(event, now)
            case events.CancelAsked():
                self._cancel_asked(event, now)
            case events.ConnectionLost():
                self._connection_lost(event, now)
            case events.ExecutorReady():
                self.pool.ready(event.executor, event.pid, event.lane, event.lane_token)
            case events.ExecutorOnLane():
                if (session := self._session_of(event.executor)) is not None:
                    session.on_lane = True
            case events.LaneLostAsked():
                self._lane_lost(event, now)
            case events.ExecutorPhase():
                self._executor_phase(event, now)
            case events.ExecutorMemory():
                if self.config.memory_limit is not None and event.resident > self.config.memory_limit:
                    self._emit(*self.pool.kill(event.executor, CrashVerdict.MEMORY, now))
            case events.ExecutorDisk():
                if self.config.disk_limit is not None and event.used > self.config.disk_limit:
                    self._emit(*self.pool.kill(event.executor, CrashVerdict.DISK, now))
            case events.ExecutorBrokeProtocol():
                self._log(logging.ERROR, f"executor {event.executor}: {event.reason}")
                self._emit(*self.pool.kill(event.executor, CrashVerdict.PROTOCOL, now))
            case events.ExecutorExited():
                self._executor_exited(event, now)
            case events.LeaseFinished():
                self._lease_over(event, now)
            case events.KeyTakenBack():
                self._key_revoked(event, now)
            case events.ShutdownAsked():
                self._shutdown(event, now)
            case events.TimePassed():
                pass
            case _:
                assert_never(event)
        if not isinstance(event, events.CallAsked | events.ExecutorReplied):
            self._expire(now)
            self._assign(now)
            self._emit(*self.pool.refill(self._wanted(), now))
        out, self._out = self._out, []
        return out

    def next_wakeup(self) -> float | None:
        """Return when `TimePassed` is due (monotonic seconds), or None when only an event can change anything."""
        times: list[float | None] = [entry.until for entry in self._waiting]
        for session in self._sessions.values():
            times += [session.ends_at, self._head_deadline(session), self._stuck_at(session)]
        times.append(self.pool.next_wakeup(self._wanted()))
        return min((time for time in times if time is not None), default=None)

    # --- sessions -----------------------------------------------------------------------------------------

    def _open_asked(self, event: events.OpenAsked, now: float) -> None:
        error = self._refusal(event)
        if error is not None:
            self._emit(events.Fail(event.conn, event.request_id, error))
            return
        if event.lease is not None:
            self._end_all(
                (s for s in self._sessions.values() if s.lease == event.lease),
                errors.SessionClosed("another session was opened under the same lease"),
                now,
            )
        wait = min(max(event.request.wait_s, 0.0), self.config.max_wait_s)
        self._over.pop(event.conn, None)
        self._waiting.append(WaitingClient(event.conn, event.request_id, event.request, event.lease, now + wait))

    def _refusal(self, event: events.OpenAsked) -> TunefarmError | None:
        config = self.config
        if self._stopping:
            return errors.SessionRefused(f"{config.box} is shutting down: {self._stopping}")
        if event.conn in self._by_conn or any(entry.conn == event.conn for entry in self._waiting):
            return errors.ProtocolError("this connection has a session, or waits for one, already")
        if config.leases_required and event.lease is None:
            return errors.LeaseRefused(
                f"{config.box} is lent out by a tracker and does not know this lease",
                hint="request the device from the tracker; a lease that expired has to be requested again",
            )
        if event.request.key and config.key and event.request.key != config.key:
            return errors.SessionRefused(f"{config.box} serves key {config.key!r}, not {event.request.key!r}")
        if len(self._waiting) >= config.max_waiting:
            return errors.SessionRefused(f"too many clients wait for {config.box}")
        return None

    def _close_asked(self, event: events.CloseAsked, now: float) -> None:
        session = self._by_conn.get(event.conn)
        if session is not None:
            self._end(session, errors.SessionClosed("closed by the client"), now, tell=False)
        self._emit(events.AnswerRequest(event.conn, event.request_id, Done()))

    def _connection_lost(self, event: events.ConnectionLost, now: float) -> None:
        self._waiting = deque(entry for entry in self._waiting if entry.conn != event.conn)
        session = self._by_conn.get(event.conn)
        if session is not None:
            session.queue.clear()
            self._end(session, errors.SessionClosed(event.reason), now, tell=False)
        self._over.pop(event.conn, None)

    def _lease_over(self, event: events.LeaseFinished, now: float) -> None:
        why = errors.SessionClosed(f"the lease ended: {event.reason}")
        self._end_all((s for s in self._sessions.values() if s.lease == event.lease), why, now)
        for entry in [entry for entry in self._waiting if entry.lease == event.lease]:
            self._waiting.remove(entry)
            self._emit(events.Fail(entry.conn, entry.request_id, errors.LeaseRefused(why.message)))

    def _key_revoked(self, event: events.KeyTakenBack, now: float) -> None:
        if (session := self._by_conn.get(event.conn)) is not None:
            self._end(session, errors.SessionClosed(event.reason), now)
        for entry in [entry for entry in self._waiting if entry.conn == event.conn]:
            self._waiting.remove(entry)
            self._emit(events.Fail(entry.conn, entry.request_id, errors.NotPermitted(event.reason)))

    def _shutdown(self, event: events.ShutdownAsked, now: float) -> None:
        self._stopping = event.reason
        for entry in self._waiting:
            self._emit(events.Fail(entry.conn, entry.request_id, errors.SessionRefused(event.reason)))
        self._waiting.clear()
        self._end_all(self._sessions.values(), errors.SessionClosed(event.reason), now)
        self._emit(*self.pool.stop(now))

    # --- calls --------------------------------------------------------------------------------------------

    def _call_asked(self, event: events.CallAsked, now: float) -> None:
        session = self._by_conn.get(event.conn)
        if session is None:
            self._emit(events.Fail(event.conn, event.request_id, self.why_over(event.conn)))
            return
        config = self.config
        too_many = len(session.queue) >= config.max_pending
        if too_many or (session.queue and session.queued_bytes + event.nbytes > config.max_pending_bytes):
            error = errors.ProtocolError(
                "the client sent more than it may have unanswered "
                f"({config.max_pending} requests, {config.max_pending_bytes} bytes)"
            )
            self._emit(events.Fail(event.conn, event.request_id, error))
            self._end(session, error, now)
            return
        # Of a message on its way only the header and body are kept, to name it; a trial has no more.
        kept = event.frames if event.trial else event.frames[:2]
        session.queue.append(SessionRequest(event.request_id, kept, event.nbytes, event.timeout_s, event.trial))
        session.queued_bytes += event.nbytes
        if len(session.queue) == 1:
            self._start_head(session, now)
        if session.executor is not None:
            self._emit(events.ToExecutor(session.executor, event.frames))

    def _cancel_asked(self, event: events.CancelAsked, now: float) -> None:
        """Fail everything that waits. The session's fate is decided when its executor is gone."""
        session = self._sessions.get(event.session)
        if session is None or not session.secret or not hmac.compare_digest(session.secret, event.secret):
            self._emit(events.Fail(event.conn, event.request_id, errors.SessionClosed("the session to cancel is over")))
            return
        if session.queue:
            session.measuring = session.queue[0].trial
            session.on_lane = session.on_lane and not session.measuring  # trials follow what was asked on the lane
        for number, request in enumerate(session.queue):
            what = "cancelled while it ran" if number == 0 else "cancelled before it started"
            error = errors.Cancelled(f"{self._name_call(request.frames)} was {what}")
            self._emit(events.Fail(session.conn, request.request_id, error))
        session.queue.clear()
        session.queued_bytes = 0
        self._emit(*self.pool.kill(session.executor, CrashVerdict.CANCELLED, now))
        self._emit(events.AnswerRequest(event.conn, event.request_id, Done()))

    def _lane_lost(self, event: events.LaneLostAsked, now: float) -> None:
        """Answer a call that is under way: now, or when the executor's end is known."""
        session = self._by_conn.get(event.conn)
        if session is not None:
            executor = self.pool.get(session.executor)
            if executor is None or executor.pid != event.pid:
                self._emit(events.Fail(event.conn, event.request_id, arrays_lost()))
                return
            session.queue.append(SessionRequest(event.request_id, event.frames, 0, _LANE_END_S, trial=False))
            if len(session.queue) == 1:
                self._start_head(session, now)
            return
        ended = self._over.get(event.conn)
        error = self.why_over(event.conn)
        if ended is not None and ended.report is not None:
            call = CallUnderWay(self._name_call(event.frames), "", 0.0, None)
            error = explain(ended.report, ended.verdict, call, self.config.memory_limit)
        self._emit(events.Fail(event.conn, event.request_id, error))

    def _executor_replied(self, event: events.ExecutorReplied, now: float) -> None:
        session = self._session_of(event.executor)
        if session is None:
            return  # on its way out: whoever waited was or will be told
        if not session.queue or session.queue[0].request_id != event.request_id:
            self._emit(*self.pool.kill(event.executor, CrashVerdict.PROTOCOL, now))
            return
        done = session.queue.popleft()
        session.queued_bytes -= done.nbytes
        session.measuring = done.trial
        self._start_head(session, now)
        self._emit(events.ToClient(session.conn, event.frames))

    def _executor_phase(self, event: events.ExecutorPhase, now: float) -> None:
        session = self._session_of(event.executor)
        if session is not None:
            session.phase = event.name[:64]
            if event.timeout_s is not None and event.timeout_s > 0 and session.queue and session.queue[0].trial:
                # A kernel may say this in its executor's name: all phases together have what the client gave the trial.
                left = session.head_started + self._allowed(session.queue[0].frames) - now
                session.head_since, session.head_timeout = now, max(0.0, min(event.timeout_s, left))

    # --- executors that end -------------------------------------------------------------------------------

    def _executor_exited(self, event: events.ExecutorExited, now: float) -> None:
        executor, commands = self.pool.exited(event.executor, event.report, now)
        self._emit(*commands)
        if commands and self.pool.start_failures >= 3:
            self._refuse_waiting(event.report)
        if executor is None or executor.session is None:
            return
        session = self._sessions.get(executor.session)
        if session is None:
            self._left(executor.session)
        elif session.executor == executor.number:
            self._lost_under(session, event.report, executor.verdict, now)

    def _refuse_waiting(self, report: ExitReport) -> None:
        error = errors.SessionRefused(
            f"executors of {self.config.box} do not start: {report.describe()}",
            hint="look at the server's log",
            detail={"stderr": report.stderr},
        )
        for entry in self._waiting:
            self._emit(events.Fail(entry.conn, entry.request_id, error))
        self._waiting.clear()

    def _lost_under(self, session: BoxSession, report: ExitReport, verdict: CrashVerdict, now: float) -> None:
        """The executor of a live session ended: answer its head request, then restart or end the session."""
        cancelled = verdict is CrashVerdict.CANCELLED
        self.crashes += not cancelled
        session.executor = None
        # What came since its calls were cancelled was never under way.
        head = session.queue.popleft() if session.queue and not cancelled else None
        elapsed = now - session.head_started
        call = None
        if head is not None:
            session.queued_bytes -= head.nbytes
            call = CallUnderWay(self._name_call(head.frames), session.phase, elapsed, session.head_timeout)
        error = explain(report, verdict, call, self.config.memory_limit, session.on_lane)
        level = logging.INFO if cancelled else logging.WARNING
        self._log(level, f"session {session.number} of {session.request.client}: {error.message}")
        if head is not None and head.trial:
            blame = "the reference, not the candidate: " if session.phase == REFERENCE_PHASE else ""
            result = failed_trial(error, elapsed, blame)
            self._emit(events.AnswerRequest(session.conn, head.request_id, Measured(result)))
        elif head is not None:
            self._emit(events.Fail(session.conn, head.request_id, error))
        # Between trials nothing is lost with an executor; arrays and modules are.
        measuring = session.measuring and not session.on_lane if head is None else head.trial
        session.on_lane = False
        if session.request.restart_on_crash and measuring and verdict not in (CrashVerdict.STUCK, CrashVerdict.DISK):
            self._restart(session, now)
        else:
            self._end(session, error, now, report=report, verdict=verdict)

    # --- after every event --------------------------------------------------------------------------------

    def _expire(self, now: float) -> None:
        for session in list(self._sessions.values()):
            ends_at, deadline = session.ends_at, self._head_deadline(session)
            stuck_at = self._stuck_at(session)
            if ends_at is not None and now >= ends_at:
                limit = session.request.session_timeout_s
                self._end(session, errors.SessionClosed(f"the session's time limit of {limit:g} s is over"), now)
            elif deadline is not None and now >= deadline:
                self._emit(*self.pool.kill(session.executor, CrashVerdict.DEADLINE, now))
            elif stuck_at is not None and now >= stuck_at:
                self._lost_under(session, ExitReport(), CrashVerdict.STUCK, now)
        for entry in [entry for entry in self._waiting if now >= entry.until]:
            self._waiting.remove(entry)
            self._emit(events.Fail(entry.conn, entry.request_id, self._busy()))
        self._emit(*self.pool.expire(now))

    def _busy(self) -> errors.RPCError:
        if len(self._sessions) < self.config.max_sessions:
            return errors.SessionRefused(f"{self.config.box} has no executor ready in time", hint="try again")
        names = ", ".join(self.session_names())
        return errors.SessionRefused(
            f"{self.config.box} is busy: its {self.config.max_sessions} session(s) are held by {names}",
            hint="wait for it, or share the device through a tracker",
        )

    def _assign(self, now: float) -> None:
        """Give warm executors to sessions that lost theirs, then to waiting clients."""
        for session in self._sessions.values():
            executor = self.pool.take_warm(session.number, now) if session.executor is None else None
            if executor is not None:
                self._attach(session, executor)
                self._start_head(session, now)
                self._emit(*(events.ToExecutor(executor.number, request.frames) for request in session.queue))
        while self._waiting and len(self._sessions) + len(self._leaving) < self.config.max_sessions:
            executor = self.pool.take_warm(self._next_session, now)
            if executor is None:
                return
            entry = self._waiting.popleft()
            session = BoxSession(
                self._next_session, entry.conn, entry.request, entry.lease, since=now, secret=executor.lane_token
            )
            self._next_session += 1
            self._sessions[session.number] = self._by_conn[session.conn] = session
            self._attach(session, executor)
            # Deadlines are the supervisor's to enforce: with one for every call, it has to see every call.
            lane = executor.lane if self.config.call_timeout_s is None else ""
            token = executor.lane_token if lane else b""
            opened = SessionOpened(session.number, self.config.box, executor.pid, lane, token, session.secret)
            self._emit(events.AnswerRequest(entry.conn, entry.request_id, opened))
            if session.lease is not None:
                self._emit(events.SupervisorReport(LeaseReport(session.lease, "opened")))
            self._log(logging.INFO, f"session {session.number} opened for {session.request.client}")
