"""The supervisor's loop: sockets and processes on one side, `SupervisorState` on the other.

It owns the box's one port and never runs user code. It moves messages between clients and executors without
decoding them, answers the few meant for itself, and does what the state tells it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import assert_never

import msgspec
import zmq

from compiler.errors import TunefarmError
from rpc_server.box import supervisor_events as events
from rpc_server.box.executor_links import ExecutorLinks
from rpc_server.box.executor_pool import ExecutorState
from rpc_server.box.supervisor_records import SupervisorConfig
from rpc_server.box.supervisor_state import SupervisorState
from rpc_server.errors import NotPermitted, ProtocolError, RemoteError
from rpc_server.farm_link.leases import LeaseTable
from rpc_server.isolation.limits import EACH
from rpc_server.machine.blobs import BlobStore
from rpc_server.machine.crash import ExitReport
from rpc_server.machine.processes import ExecutorSettings
from rpc_server.machine.user_name import user_name
from rpc_server.wire import messages
from rpc_server.wire.codec import DEFAULT_LIMITS, Address, Buffer, MessageKind, check_frames, encode_error, total_size
from rpc_server.wire.guard.budget import Budget
from rpc_server.wire.guard.connection_guard import ConnectionGuard
from rpc_server.wire.key_watch import KeyWatch
from rpc_server.wire.keys import Principal
from rpc_server.wire.polling import PollTable, poll_ms
from rpc_server.wire.request_summary import describe, trial_allowance
from rpc_server.wire.sockets import came_before, has_message, receive_frames, send_frames
from rpc_server.wire.waker import Waker

logger = logging.getLogger("rpc_server")

MEMORY_SAMPLE_S = 0.05
DISK_SAMPLE_S = 0.5
_PAUSE_S = 0.05  # after a defect, which may show again at once
_MOST_FRAMES = DEFAULT_LIMITS.max_frames
_BURST = 64  # messages taken from one source before the others get a turn,
_LONGEST_BURST_S = 0.005  # or fewer that take long


# A session is asked for first.
BUDGET = Budget(connections=1024, per_address=512, stranger_bytes=1 << 16, first_words_s=0.002)


def watch_connections(front: zmq.Socket[bytes]) -> ConnectionGuard:
    """A guard over every connection to `front`: call before it is bound, or the first ones go unseen."""
    return ConnectionGuard(front, BUDGET)


class Supervisor:
    """Runs a box in one thread.

    `run()` returns after `stop(reason)`, which any thread or signal handler may call. `front` is a bound ROUTER made by
    `prepare`, and `guard` its `watch_connections`, called before it was bound: it takes both over. `folder` is a
    private folder the supervisor may fill and empty. `info` gives the static part of BoxStatus. `who` names the holder
    of the key a message came with, where keys are used. Then only clients may ask for more than the status, and `keys`
    tells whose sessions end because theirs was revoked.
    """

    def __init__(
        self, front: zmq.Socket[bytes], guard: ConnectionGuard, folder: Path, config: SupervisorConfig,
        executor: ExecutorSettings, leases: LeaseTable | None = None, info: messages.BoxStatus | None = None,
        blob_capacity: int = 1 << 30, who: Callable[[zmq.Frame], Principal | None] | None = None,
        keys: KeyWatch | None = None,
    ) -> None:  # fmt: skip
        self._front = front
        self._guard = guard
        guard.needed, guard.on_news = self._is_needed, self._on_connection
        self._who = who
        self._keys = keys
        self._config = config
        self._leases = leases
        self._info = info or messages.BoxStatus(config.box, config.key, "", {}, (), 0, 0.0, 0)
        self._state = SupervisorState(
            config, lambda frames: describe(frames[1]), lambda frames: trial_allowance(frames[1])
        )
        self._blobs = BlobStore(folder / "blobs", blob_capacity)
        self._poll = PollTable()
        self._executors = ExecutorLinks(self._poll, folder, executor, self._blobs, self._handle, self._view_of_session)
        self._conn_of_fd: dict[int, bytes] = {}  # those that asked for a session
        self._views: dict[bytes, bytes] = {}
        self._vacant: set[int] = set()  # descriptors whose connection has ended
        self._started = time.monotonic()
        self._folder = folder
        self._user = "users of their own" if executor.user == EACH else executor.user or user_name()
        self._due: float | None = None  # when the state last wanted to be told that time passed
        self._next_sample = 0.0
        self._next_disk_sample = 0.0
        self._stop_reason = ""
        self._waker = Waker()
        self.on_executor_end: Callable[[ExitReport], None] = lambda _report: None
        if leases is not None:
            leases.on_change_of_known(self.wake)

    # --- from other threads -------------------------------------------------------------------------------

    def wake(self) -> None:
        """Make the loop check the leases and the stop flag. Safe in any thread and in signal handlers."""
        self._waker.wake()

    def stop(self, reason: str) -> None:
        self._stop_reason = reason
        self.wake()

    # --- the loop -----------------------------------------------------------------------------------------

    def run(self) -> None:
        self._front.setsockopt(zmq.ROUTER_MANDATORY, 1)
        self._poll.watch(self._front, self._on_front)
        self._poll.watch(self._guard.socket, lambda _: self._guard.drain())
        self._poll.watch(self._waker.fd, lambda _: self._on_wake())
        stopping = False
        try:
            self._handle(events.TimePassed())
            while not (stopping and self._executors.all_gone):
                try:
                    self._turn()
                    if self._stop_reason and not stopping:
                        stopping = True
                        self._handle(events.ShutdownAsked(self._stop_reason))
                except zmq.ZMQError:
                    raise
                except Exception:  # a defect of ours must not end the sessions
                    logger.exception("a turn of the server failed; it goes on")
                    time.sleep(_PAUSE_S)
        finally:
            self._executors.kill_all()
            self._executors.finish()
            self._guard.close()
            self._front.close(linger=500)

    def _turn(self) -> None:
        self._executors.flush()
        self._poll.wait(self._poll_ms())
        self._executors.flush()  # before anything that no call waits for
        self._on_time()

    def _poll_ms(self) -> int | None:
        self._due = self._state.next_wakeup()
        times = [self._due]
        if self._leases is not None:
            times.append(self._leases.next_expiry())
        if self._state.running():
            times.append(self._next_sample if self._config.memory_limit is not None else None)
            times.append(self._next_disk_sample if self._config.disk_limit is not None else None)
        if self._keys is not None:
            times.append(self._keys.due())
        times.append(self._guard.due())
        due = min((time for time in times if time is not None), default=None)
        return None if due is None else poll_ms(due - time.monotonic())

    def _on_time(self) -> None:
        now = time.monotonic()
        if self._due is not None and now >= self._due:  # what came meanwhile is looked at in the next turn
            self._handle(events.TimePassed())
        if self._leases is not None and (expiry := self._leases.next_expiry()) is not None and now >= expiry:
            self._end_leases()
        if self._keys is not None and (due := self._keys.due()) is not None and now >= due:
            for conn, reason in self._keys.revoked(now):
                self._handle(events.KeyTakenBack(conn, reason))
        if (due := self._guard.due()) is not None and now >= due:
            self._guard.look(now)
        self._sample(now)

    def _sample_later(self) -> None:
        """Do not measure a session while it begins: that would hold up its first call, and finds nothing."""
        now = time.monotonic()
        self._next_sample = max(self._next_sample, now + MEMORY_SAMPLE_S)
        self._next_disk_sample = max(self._next_disk_sample, now + MEMORY_SAMPLE_S)

    def _sample(self, now: float) -> None:
        """Sample the memory and disk use of the sessions that run something."""
        if self._config.memory_limit is not None and now >= self._next_sample:
            self._next_sample = now + MEMORY_SAMPLE_S
            for number in self._state.running():
                if (resident := self._executors.resident_memory(number)) is not None:
                    self._handle(events.ExecutorMemory(number, resident))
        if self._config.disk_limit is not None and now >= self._next_disk_sample:
            self._next_disk_sample = now + DISK_SAMPLE_S
            for number in self._state.running():
                self._handle(events.ExecutorDisk(number, self._executors.disk_used(number)))

    def _on_wake(self) -> None:
        self._waker.clear()
        if self._leases is not None:
            self._end_leases()

    def _end_leases(self) -> None:
        assert self._leases is not None
        for ended in self._leases.take_ended():
            self._handle(events.LeaseFinished(ended.lease_id, ended.reason))

    # --- clients ------------------------------------------------------------------------------------------

    def _on_front(self, _events: int) -> None:
        end = time.monotonic() + _LONGEST_BURST_S
        for _ in range(_BURST):
            try:
                first, parts, over = receive_frames(self._front, _MOST_FRAMES)
            except zmq.Again:
                return
            conn = first.bytes
            frames = [part.buffer for part in parts]
            peer = self._guard.heard(conn, first, parts)
            try:
                if over:
                    self._guard.refuse_long(conn, over)
                self._on_message(conn, frames, first)
                self._guard.vouch(peer)
            except TunefarmError as error:
                self._handle_error(conn, frames, error)
                if isinstance(error, ProtocolError):
                    self._guard.doubt(peer)
            except Exception as error:  # a defect of ours must not cost the other sessions
                logger.exception("a client's message failed")
                self._handle_error(conn, frames, RemoteError(f"{type(error).__name__}: {error}"))
                self._guard.doubt(peer)
            if not has_message(self._front) or (peer is not None and peer.heard_at >= end):
                return

    def _on_message(self, conn: bytes, frames: list[memoryview], first: zmq.Frame) -> None:
        header = check_frames(frames)
        if header.kind is not MessageKind.REQUEST:
            raise ProtocolError(f"a box takes requests, not a {header.kind.name}")
        if header.address is not Address.PEER:
            timeout = header.timeout_ms / 1000 if header.timeout_ms else None
            trial = header.address is Address.TRIAL
            self._handle(events.CallAsked(conn, header.request_id, frames, total_size(frames), timeout, trial))
            return
        body = messages.public_codec.decode_body(frames[1])
        if self._who is not None and not isinstance(body, messages.BoxInfo | messages.Ping | messages.LaneLost):
            self._permit(first)
        match body:
            case messages.PutBlob():
                self._put_blob(conn, header.request_id, body, frames[2:])
            case messages.HasBlobs():
                missing = self._blobs.missing(self._view_of(conn), body.digests)
                self._answer(conn, header.request_id, messages.BlobsMissing(missing))
            case messages.OpenSession():
                self._open(conn, header.request_id, body, first)
            case messages.CancelCalls():
                self._handle(events.CancelAsked(conn, header.request_id, body.session, body.secret))
            case messages.CloseSession():
                self._handle(events.CloseAsked(conn, header.request_id))
            case messages.BoxInfo():
                self._answer(conn, header.request_id, self._status())
            case messages.LaneLost():
                self._handle(events.LaneLostAsked(conn, header.request_id, body.executor_pid, frames))
            case messages.Ping():
                self._answer(conn, header.request_id, messages.Done())
            case _:
                raise ProtocolError(f"{type(body).__name__} is no request to a box")

    def _permit(self, first: zmq.Frame) -> Principal:
        assert self._who is not None
        principal = self._who(first)
        if principal is None:
            raise NotPermitted("this key is not authorized any more", hint="have it authorized on the box")
        if not principal.may_use_devices:
            raise NotPermitted(f"{principal.name} has the role {principal.role}, which may not open sessions")
        return principal

    def _open(self, conn: bytes, request_id: int, body: messages.OpenSession, first: zmq.Frame) -> None:
        # A request may be read after its sender has gone, even after another took over its descriptor.
        self._guard.drain()
        fd = first.get(zmq.SRCFD)
        if isinstance(fd, int) and fd >= 0:
            if fd in self._vacant:
                return
            before = self._conn_of_fd.get(fd, conn)
            if came_before(conn, before):
                return
            self._conn_of_fd[fd] = conn
            if before != conn:
                self._lost(before)
        holder = None if self._who is None else self._permit(first)
        if holder is not None and self._keys is not None:
            self._keys.add(conn, holder)
        public = "" if holder is None else holder.public
        if public:
            self._views[conn] = b"key " + public.encode()
        lease = self._leases.check(body.token, public) if self._leases is not None and body.token else None
        self._handle(events.OpenAsked(conn, request_id, body, lease.lease_id if lease else None))

    def _put_blob(self, conn: bytes, request_id: int, body: messages.PutBlob, buffers: list[memoryview]) -> None:
        if not self._state.has_session(conn):
            raise self._state.why_over(conn)
        if len(buffers) != 1:
            raise ProtocolError("a chunk of a blob comes in exactly one buffer")
        complete = self._blobs.put(conn, self._view_of(conn), body.digest, body.size, body.offset, buffers[0])
        self._answer(conn, request_id, messages.BlobStored(body.digest, complete))

    def _on_connection(self, event: int, fd: int) -> None:
        if event == zmq.EVENT_ACCEPTED:
            self._vacant.discard(fd)
            return
        self._vacant.add(fd)
        if (conn := self._conn_of_fd.pop(fd, None)) is not None:
            self._lost(conn)

    def _view_of(self, conn: bytes) -> bytes:
        """Return whose uploads a connection sees: those of its key, or without keys its own."""
        return self._views.get(conn, conn)

    def _view_of_session(self, session: int) -> bytes:
        conn = self._state.conn_of(session)
        return b"" if conn is None else self._view_of(conn)

    def _is_needed(self, conn: bytes) -> bool:
        return self._state.has_session(conn)

    def _lost(self, conn: bytes) -> None:
        self._blobs.forget_owner(conn)
        self._views.pop(conn, None)
        if self._keys is not None:
            self._keys.remove(conn)
        self._handle(events.ConnectionLost(conn))

    def _status(self) -> messages.BoxStatus:
        disk = os.statvfs(self._folder)
        return msgspec.structs.replace(
            self._info, sessions=self._state.session_names(), warm=self._state.pool.count(ExecutorState.WARM),
            uptime_s=time.monotonic() - self._started, crashes=self._state.crashes, time=time.time(), user=self._user,
            memory_limit=self._config.memory_limit, disk_free=disk.f_bavail * disk.f_frsize,
            disk_executes=not disk.f_flag & os.ST_NOEXEC, limits_processes=self._executors.limits_processes,
        )  # fmt: skip

    def _handle_error(self, conn: bytes, frames: list[memoryview], error: TunefarmError) -> None:
        request_id = 0
        with contextlib.suppress(TunefarmError, IndexError):
            request_id = check_frames(frames).request_id
        if isinstance(error, ProtocolError):
            logger.warning("refused a message from a client: %s", error.message)
        self._send(conn, encode_error(error, request_id))

    def _answer(self, conn: bytes, request_id: int, body: messages.AnyMessage) -> None:
        self._send(conn, messages.public_codec.encode(body, MessageKind.REPLY, request_id=request_id))

    def _send(self, conn: bytes, frames: Sequence[Buffer]) -> None:
        # EHOSTUNREACH: the client is gone; the monitor tells, and ends its session.
        with contextlib.suppress(zmq.ZMQError):
            send_frames(self._front, [conn, *frames])
            self._guard.sent(conn, frames)

    # --- commands -----------------------------------------------------------------------------------------

    def _handle(self, event: events.Event) -> None:
        if isinstance(event, events.ExecutorExited):
            self.on_executor_end(event.report)
        for command in self._state.handle(event, time.monotonic()):
            self._obey(command)

    def _obey(self, command: events.Command) -> None:
        match command:
            case events.ToExecutor():
                self._executors.send(command.executor, command.frames)
            case events.ToClient():
                self._send(command.conn, command.frames)
            case events.AnswerRequest():
                self._answer(command.conn, command.request_id, command.reply)
            case events.Fail():
                self._send(command.conn, encode_error(command.error, command.request_id))
            case events.SendNote():
                self._send(command.conn, messages.public_codec.encode(command.note, MessageKind.NOTE))
            case events.Spawn():
                self._executors.spawn(command.executor)
            case events.Kill():
                self._executors.kill(command.executor)
            case events.BeginSession():
                self._executors.begin(command.executor, command.session)
                self._sample_later()
            case events.ForgetSession():
                self._executors.forget(command.session)
            case events.SupervisorReport():
                if self._leases is not None:
                    self._leases.report(command.report)
            case events.Log():
                logger.log(command.level, "%s", command.text)
            case _:
                assert_never(command)
