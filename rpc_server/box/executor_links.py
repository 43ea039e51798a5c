"""The supervisor's side of its executors: processes, streams, folders.

It turns what happens there into events.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from compiler.errors import TunefarmError
from rpc_server.box.folders import disk_usage, move_files
from rpc_server.box.removal import Remover
from rpc_server.box.supervisor_events import (
    Event,
    ExecutorBrokeProtocol,
    ExecutorExited,
    ExecutorOnLane,
    ExecutorPhase,
    ExecutorReady,
    ExecutorReplied,
    Frames,
)
from rpc_server.box.task_groups import TaskGroups
from rpc_server.errors import ProtocolError
from rpc_server.isolation.limits import EACH, ids_of
from rpc_server.machine.blobs import BlobStore
from rpc_server.machine.crash import ExitReport
from rpc_server.machine.executor_starter import ExecutorStarter
from rpc_server.machine.leftover_processes import LeftoverProcesses
from rpc_server.machine.processes import ExecutorProcess, ExecutorSettings
from rpc_server.wire.codec import MessageKind, check_frames
from rpc_server.wire.messages import Data, Need
from rpc_server.wire.polling import WRITABLE, PollTable
from rpc_server.wire.private_messages import Fetch, Hello, LaneOpened, Phase, private_codec
from rpc_server.wire.stream import StreamClosed

logger = logging.getLogger("rpc_server")

_REMOVE_S = 10.0
_BURST = 64  # reads from one executor before the others get a turn


class ExecutorLinks:
    """The links to executors.
    `emit` takes the events; `folder` holds the sessions' folders; `view_of` says whose blobs a session sees."""

    def __init__(
        self, poll: PollTable, folder: Path, settings: ExecutorSettings, blobs: BlobStore,
        emit: Callable[[Event], None], view_of: Callable[[int], bytes],
    ) -> None:  # fmt: skip
        self._poll = poll
        self._folder = folder
        self._settings = settings
        self._blobs = blobs
        self._emit = emit
        self._view_of = view_of
        self._starter: ExecutorStarter | None = None
        self._waiting: list[int] = []  # executors to start once the starter is ready
        self._processes: dict[int, ExecutorProcess] = {}
        self._unsent: dict[int, ExecutorProcess] = {}
        self._sessions: dict[int, int] = {}  # by executor
        self._homes: dict[int, Path] = {}  # of executors that have no session yet
        self._session_folders: dict[int, Path] = {}
        self._remover = Remover()
        self._pids: set[int] = set()
        user = os.geteuid() if settings.user in ("", EACH) else ids_of(settings.user)[0]
        self._leftovers = LeftoverProcesses(poll, self._pids, user)
        self._stays_root = os.geteuid() == 0 and not settings.user
        self._groups = TaskGroups(settings.max_processes, settings.memory_limit)
        if self._stays_root and not self._groups.limits_processes:
            logger.warning(
                "executors run as root, and no control group can be made here: nothing limits their processes"
            )

    @property
    def limits_processes(self) -> bool:
        """Whether something keeps a session from forking without end."""
        return not self._stays_root or self._groups.limits_processes

    @property
    def all_gone(self) -> bool:
        return not self._processes and not self._waiting

    # --- what the supervisor asks for ---------------------------------------------------------------------

    def spawn(self, number: int) -> None:
        """Start an executor: at once, or when the process that it is forked from is ready."""
        try:
            starter = self._starter or self._begin_starter()
        except OSError as error:
            self._emit(ExecutorExited(number, ExitReport(stderr=str(error))))
            return
        if starter.ready:
            self._start(number, starter)
        else:
            self._waiting.append(number)

    def _begin_starter(self) -> ExecutorStarter:
        starter = self._starter = ExecutorStarter(self._settings, self._folder)
        self._pids.add(starter.pid)
        self._poll.watch(starter.fileno(), lambda _: self._on_starter(starter))
        return starter

    def _on_starter(self, starter: ExecutorStarter) -> None:
        """Start the executors that wait for it. If it has ended, none of them starts."""
        if starter.look():
            while self._waiting and self._starter is starter:
                self._start(self._waiting.pop(0), starter)
        else:
            self._end_starter()

    def _end_starter(self) -> None:
        """End the process that executors are forked from. The next executor starts another."""
        if (starter := self._starter) is None:
            return
        self._starter = None
        self._poll.unwatch(starter.fileno())
        report = starter.end()
        self._pids.discard(starter.pid)
        waiting, self._waiting = self._waiting, []
        for number in waiting:
            self._emit(ExecutorExited(number, report))

    def _start(self, number: int, starter: ExecutorStarter) -> None:
        """Start an executor in a folder that only it (and root) can enter: that of the session it will serve."""
        home = self._homes[number] = self._folder / f"executor-{number}"
        try:
            home.mkdir(mode=0o700)  # its warden gives it to the executor's user
            groups = self._groups.make(number)
            settings = msgspec.structs.replace(self._settings, executor=number, folder=str(home), groups=groups)
            process = ExecutorProcess(settings, starter.start)
        except OSError as error:
            self._leave_home(number)
            self._groups.remove(number)
            self._end_starter()
            self._emit(ExecutorExited(number, ExitReport(stderr=str(error))))
            return
        self._processes[number] = process
        self._pids.add(process.warden)
        self._poll.watch(process.stream.fileno(), lambda events: self._on_stream(process, events))
        self._poll.watch(process.pidfd, lambda _: self._on_exit(process))
        if (fd := process.stderr_fd) is not None:
            self._poll.watch(fd, lambda _: self._on_stderr(process, fd))

    def kill(self, number: int) -> None:
        if (process := self._processes.get(number)) is not None:
            process.kill()
        elif number in self._waiting:
            self._waiting.remove(number)
            if not self._waiting:  # it may never get ready
                self._end_starter()
            self._emit(ExecutorExited(number, ExitReport()))

    def kill_all(self) -> None:
        for process in self._processes.values():
            process.kill()

    def finish(self) -> None:
        """Wait until the folders of sessions are gone, but not for ever."""
        self._end_starter()
        self._remover.finish(_REMOVE_S)

    def send(self, number: int, frames: Frames) -> None:
        """Queue a message until `flush`."""
        if (process := self._processes.get(number)) is not None:
            process.stream.put(frames)
            self._unsent[number] = process

    def flush(self) -> None:
        """Write what a turn of the loop queued: one system call for many messages."""
        while self._unsent:
            _, process = self._unsent.popitem()
            with contextlib.suppress(StreamClosed):
                process.stream.flush()
                if process.stream.backlog != process.waits_to_write:
                    process.waits_to_write = process.stream.backlog
                    self._poll.want_write(process.stream.fileno(), process.waits_to_write)

    def begin(self, number: int, session: int) -> None:
        """Give an executor a session, which stays in the folder that the executor is set up in.
        After a crash within the session its files move there, because an executor sees no other folder."""
        self._sessions[number] = session
        home = self._homes.pop(number)
        if (folder := self._session_folders.get(session)) is not None:
            move_files(folder, home)
            self._remover.remove(folder)
        self._session_folders[session] = home

    def forget(self, session: int) -> None:
        """Delete a session's folder."""
        if (folder := self._session_folders.pop(session, None)) is not None:
            self._remover.remove(folder)

    def _leave_home(self, number: int) -> None:
        if (home := self._homes.pop(number, None)) is not None:
            self._remover.remove(home)

    def disk_used(self, number: int) -> int:
        """Bytes that the session of an executor takes in its folder."""
        session = self._sessions.get(number)
        return 0 if session is None else disk_usage(self._session_folders[session])

    def resident_memory(self, number: int) -> int | None:
        """Bytes of memory that all of an executor's session takes; None when it is gone."""
        process = self._processes.get(number)
        return None if process is None else process.session_memory()

    # --- what executors do --------------------------------------------------------------------------------

    def _on_stderr(self, process: ExecutorProcess, fd: int) -> None:
        process.read_stderr()
        if process.stderr_fd is None:
            self._poll.unwatch(fd)

    def _on_stream(self, process: ExecutorProcess, events: int) -> None:
        try:
            if events & WRITABLE:
                self._unsent[process.number] = process
            if events & ~WRITABLE:
                for _ in range(_BURST):
                    messages = process.stream.receive()
                    if not messages:
                        return
                    for frames in messages:
                        self._on_message(process, frames)
        except StreamClosed:
            # It is ending, and its pidfd will tell how; or it closed its end and is of no use any more.
            self._poll.unwatch(process.stream.fileno())
            process.finish()
        except TunefarmError as error:
            self._emit(ExecutorBrokeProtocol(process.number, error.message))

    def _on_message(self, process: ExecutorProcess, frames: list[memoryview]) -> None:
        header = check_frames(frames)
        if header.kind in (MessageKind.REPLY, MessageKind.ERROR):
            self._emit(ExecutorReplied(process.number, header.request_id, frames))
            return
        body = private_codec.decode_body(frames[1])
        match body:
            case Hello():
                process.note_warm()
                self._emit(ExecutorReady(process.number, process.pid, body.lane, body.lane_token))
            case LaneOpened():
                self._emit(ExecutorOnLane(process.number))
            case Phase():
                self._emit(ExecutorPhase(process.number, body.name, body.timeout_s))
            case Fetch():
                self._on_fetch(process, header.request_id, body)
            case _:
                raise ProtocolError(f"an executor does not send {type(body).__name__}")

    def _on_fetch(self, process: ExecutorProcess, request_id: int, body: Fetch) -> None:
        session = self._sessions.get(process.number)
        blob = None if session is None else self._blobs.read(self._view_of(session), body.digest)
        answer = Need((body.digest,)) if blob is None else Data(len(blob))
        buffers = () if blob is None else (blob,)
        frames = private_codec.encode(answer, MessageKind.REPLY, request_id=request_id, buffers=buffers)
        self.send(process.number, frames)

    def _on_exit(self, process: ExecutorProcess) -> None:
        """Take its last words, then bury it."""
        with contextlib.suppress(StreamClosed, TunefarmError):
            while messages := process.stream.receive():
                for frames in messages:
                    self._on_message(process, frames)
        for source in (process.stream.fileno(), process.pidfd, process.stderr_fd):
            self._poll.unwatch(source)
        del self._processes[process.number]
        self._sessions.pop(process.number, None)
        self._leave_home(process.number)
        self._unsent.pop(process.number, None)
        report = process.reap()
        self._pids.discard(process.warden)
        self._leftovers.sweep()
        self._groups.remove(process.number)
        self._emit(ExecutorExited(process.number, report))
