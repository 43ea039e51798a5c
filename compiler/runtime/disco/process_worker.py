"""The process of one worker: `python -m compiler.runtime.disco.process_worker FD INDEX COUNT GROUPS`."""

from __future__ import annotations

import mmap
import os
import signal
import socket
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec
import numpy as np

from compiler.runtime.core.device import cpu
from compiler.runtime.disco import collectives as _collectives  # noqa: F401  (what workers call, by name)
from compiler.runtime.disco.messages import Broken, DiscoError, Instruction, Left, Part, Parts, StopWorker, ToWorker
from compiler.runtime.disco.wire import receive, send
from compiler.runtime.disco.worker import Array, Worker

_DECODER = msgspec.msgpack.Decoder(ToWorker)


class _Inbox:
    """Receive the controller's messages: instructions, and results of an exchange that a worker waits for."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._waiting: deque[Instruction] = deque()

    def instruction(self) -> Instruction:
        """The next instruction. Raises EOFError where the controller is gone."""
        while not self._waiting:
            self._receive()
        return self._waiting.popleft()

    def parts(self) -> tuple[Parts, list[int]]:
        """Return what becomes of the meeting; instructions that come before it wait."""
        while (found := self._receive()) is None:
            pass
        return found

    def _receive(self) -> tuple[Parts, list[int]] | None:
        body, descriptors = receive(self._channel)
        message: ToWorker = _DECODER.decode(body)
        if isinstance(message, Parts):
            return message, descriptors
        self._waiting.append(message)
        return None


class _Meeting:
    """Exchanges parts through memory whose descriptors the controller passes on."""

    def __init__(self, channel: socket.socket, inbox: _Inbox) -> None:
        self._channel = channel
        self._inbox = inbox
        self._memory = os.memfd_create("disco")
        self._size = 0

    @contextmanager
    def exchange(self, part: Array | None, in_group: bool) -> Iterator[Sequence[memoryview]]:
        data = np.zeros(0, np.uint8) if part is None else np.ascontiguousarray(part).reshape(-1).view(np.uint8)
        if data.nbytes > self._size:
            os.ftruncate(self._memory, data.nbytes)
            self._size = data.nbytes
        if data.nbytes:
            with mmap.mmap(self._memory, data.nbytes) as own:
                own.write(data.data)
        send(self._channel, Part(in_group, data.nbytes), (self._memory,))
        parts, descriptors = self._wait()
        try:
            maps = [
                mmap.mmap(fd, size, prot=mmap.PROT_READ) if size else None for fd, size in zip(descriptors, parts.sizes)
            ]
        finally:
            for fd in descriptors:
                os.close(fd)
        views = [memoryview(b"" if held is None else held) for held in maps]
        try:
            yield views
        finally:
            send(self._channel, Left(in_group))
            self._wait()

    def fail(self, error: str) -> None:
        send(self._channel, Broken(error))

    def _wait(self) -> tuple[Parts, list[int]]:
        found, descriptors = self._inbox.parts()
        if found.error:
            for fd in descriptors:
                os.close(fd)
            raise DiscoError(found.error)
        return found, descriptors


def main(fd: int, index: int, count: int, groups: int) -> None:
    """Do what the controller says until it goes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the controller ends its workers
    channel = socket.socket(fileno=fd)
    inbox = _Inbox(channel)
    worker = Worker(index, count, groups, _Meeting(channel, inbox), cpu())
    while True:
        try:
            instruction = inbox.instruction()
            if isinstance(instruction, StopWorker):
                return
            answer = worker.execute(instruction)
            if answer is not None:
                send(channel, answer)
        except (EOFError, OSError):
            return


if __name__ == "__main__":
    main(*map(int, sys.argv[1:5]))
