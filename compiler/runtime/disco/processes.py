"""Workers as processes: the controller's side of their sockets, and the exchange of their parts."""

from __future__ import annotations

import os
import queue
import socket
import subprocess
import sys
import threading
from pathlib import Path

import msgspec

from compiler.runtime.disco import messages
from compiler.runtime.disco.wire import receive, send

_DECODER = msgspec.msgpack.Decoder(messages.Answer)
_HOME = Path(__file__).resolve().parents[3]


_Letter = tuple[messages.Instruction | messages.Parts, list[int]]
"""A message to a worker, and descriptors of its own that go along."""


class _Table:
    """The exchange of a group of processes.
    Each puts in its part, and gets all parts when the last has come."""

    def __init__(self, members: range) -> None:
        self.members = members
        self.parts: dict[int, tuple[int, int]] = {}  # of a worker: the descriptor of its memory, and the size
        self.left: set[int] = set()


class Processes:
    """`count` workers, each a process, with a thread here that listens to it."""

    def __init__(self, count: int, groups: int) -> None:
        size = count // groups
        self._lock = threading.Lock()
        self._everyone = _Table(range(count))
        self._groups = [_Table(range(at * size, (at + 1) * size)) for at in range(groups)]
        self._size = size
        self._closing = False
        self._dead: dict[int, str] = {}
        self._failed: dict[int, str] = {}
        self._outboxes: list[queue.SimpleQueue[messages.Answer]] = [queue.SimpleQueue() for _ in range(count)]
        self._outgoing: list[queue.SimpleQueue[_Letter]] = [queue.SimpleQueue() for _ in range(count)]
        self._channels: list[socket.socket] = []
        self.processes: list[subprocess.Popen[bytes]] = []
        for index in range(count):
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
            command = [sys.executable, "-m", "compiler.runtime.disco.process_worker"]
            numbers = [str(number) for number in (theirs.fileno(), index, count, groups)]
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(_HOME), *sys.path])}
            started = subprocess.Popen([*command, *numbers], pass_fds=[theirs.fileno()], env=environment)
            theirs.close()
            self._channels.append(ours)
            self.processes.append(started)
        for index in range(count):
            for work in (self._listen, self._talk):
                threading.Thread(target=work, args=(index,), daemon=True).start()

    # ------------------------------------------------------------------------------ telling

    def send(self, index: int, instruction: messages.Instruction) -> None:
        """Tell a worker something."""
        self._check(index)
        self._outgoing[index].put((instruction, []))

    def _talk(self, index: int) -> None:
        """Send queued messages.
        Nobody else does, so no listener ever waits for a worker that does not read."""
        while True:
            message, descriptors = self._outgoing[index].get()
            try:
                send(self._channels[index], message, descriptors)
            except OSError:
                self._died(index)
                return
            finally:
                for fd in descriptors:
                    os.close(fd)
            if isinstance(message, messages.StopWorker):
                return

    def answer(self, index: int) -> messages.Answer:
        """A worker's next answer."""
        found = self._outboxes[index].get()
        if index in self._dead:
            raise messages.DiscoError(self._dead[index])
        return found

    def _check(self, index: int) -> None:
        if index in self._dead:
            raise messages.DiscoError(self._dead[index])

    # ---------------------------------------------------------------------------- listening

    def _listen(self, index: int) -> None:
        while True:
            try:
                body, descriptors = receive(self._channels[index])
                message = _DECODER.decode(body)
            except (EOFError, OSError, msgspec.DecodeError, messages.DiscoError):
                self._died(index)
                return
            match message:
                case messages.Value() | messages.Failed():
                    self._outboxes[index].put(message)
                case messages.Part():
                    self._part(index, message, descriptors)
                case messages.Left():
                    self._leave(index, message)
                case messages.Broken():
                    self._broken(index, message.error)

    def _table(self, index: int, in_group: bool) -> _Table:
        return self._groups[index // self._size] if in_group else self._everyone

    def _part(self, index: int, part: messages.Part, descriptors: list[int]) -> None:
        with self._lock:
            table = self._table(index, part.group)
            table.parts[index] = descriptors[0], part.size
            gone = self._gone(table)
            if gone:
                self._refuse(table, gone)
            elif len(table.parts) == len(table.members):
                laid = [table.parts[member] for member in table.members]
                table.parts = {}
                for member in table.members:
                    self._reply(member, messages.Parts(tuple(size for _, size in laid)), [fd for fd, _ in laid])
                for fd, _ in laid:
                    os.close(fd)

    def _leave(self, index: int, left: messages.Left) -> None:
        with self._lock:
            table = self._table(index, left.group)
            table.left.add(index)
            gone = next((text for member, text in self._dead.items() if member in table.members), "")
            if gone or len(table.left) == len(table.members):
                for member in table.left:
                    self._reply(member, messages.Parts(error=gone))
                table.left = set()

    def _gone(self, table: _Table) -> str:
        known = {**self._failed, **self._dead}
        return next((text for member, text in known.items() if member in table.members), "")

    def _broken(self, index: int, error: str) -> None:
        with self._lock:
            if not error:
                self._failed.pop(index, None)
                return
            self._failed[index] = error
            for table in (self._everyone, self._groups[index // self._size]):
                self._refuse(table, error)

    def _refuse(self, table: _Table, error: str) -> None:
        for member, (fd, _) in table.parts.items():
            os.close(fd)
            self._reply(member, messages.Parts(error=error))
        table.parts = {}

    def _reply(self, index: int, parts: messages.Parts, descriptors: list[int] | None = None) -> None:
        self._outgoing[index].put((parts, [os.dup(fd) for fd in descriptors or ()]))

    def _died(self, index: int) -> None:
        """Note that a worker is gone, and fail the exchanges of those who wait for it."""
        if self._closing:
            return
        process = self.processes[index]
        try:
            code: int | None = process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            code = None
        how = "hung up" if code is None else f"ended with {code}" if code >= 0 else f"was killed by signal {-code}"
        with self._lock:
            if index in self._dead:
                return
            self._dead[index] = f"worker {index} (process {process.pid}) {how}"
            for table in (self._everyone, *self._groups):
                if index in table.members:
                    table.parts.pop(index, None)
                    self._refuse(table, self._dead[index])
                    for member in table.left:
                        self._reply(member, messages.Parts(error=self._dead[index]))
                    table.left = set()
        self._outboxes[index].put(messages.Failed(self._dead[index]))

    def close(self) -> None:
        """End the processes."""
        self._closing = True
        for outgoing in self._outgoing:
            outgoing.put((messages.StopWorker(), []))
        for process in self.processes:
            try:
                process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for channel in self._channels:
            channel.close()
