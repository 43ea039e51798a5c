"""The process that runs user code for one session: `python -m rpc_server.executor SETTINGS`.

It is started warm, before a session needs it, talks to nobody but the supervisor over an inherited socket,
and is killed, never reused, when its session ends. Everything it may need is imported before it gives up
root: afterwards it may be unable to read its own installation.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import gc
import os
import pwd
import socket
import sys
import tempfile
from collections import deque

import msgspec
import numpy as np

from compiler.artifact import ArgSpec, Artifact
from compiler.errors import TunefarmError
from compiler.runtime import native
from compiler.runtime.module import load_artifact
from compiler.runtime.ndarray import empty
from compiler.runtime.preprocess import flush_caches
from rpc_server.compare import disagreement, fill
from rpc_server.errors import OutOfMemory, ProtocolError, RemoteError
from rpc_server.executor_session import ExecutorSession
from rpc_server.isolation import become, die_with_parent, limit_resources
from rpc_server.messages import Begin, Data, Fetch, Hello, Phase, private_codec, public_codec
from rpc_server.processes import ExecutorSettings
from rpc_server.stream import FrameStream, StreamClosed
from rpc_server.wire import Buffer, Kind, Limits, check_frames, encode_error

_FETCH_LIMITS = Limits(max_buffer=1 << 30)


class Supervised:
    """The executor's end of the talk with its supervisor."""

    def __init__(self, stream: FrameStream) -> None:
        self._stream = stream
        self._waiting: deque[list[memoryview]] = deque()
        self._fetches = 0

    def hello(self, warning: str) -> None:
        user = pwd.getpwuid(os.getuid()).pw_name if os.getuid() else "root"
        self._stream.send(private_codec.encode(Hello(user, warning), Kind.NOTE))

    def phase(self, name: str, timeout_s: float | None = None) -> None:
        """Say what the call under way does now; `timeout_s` gives it a fresh deadline."""
        self._stream.send(private_codec.encode(Phase(name, timeout_s), Kind.NOTE))

    def fetch(self, digest: str) -> memoryview | None:
        """A blob's bytes from the supervisor's store, or None."""
        self._fetches += 1
        self._stream.send(private_codec.encode(Fetch(digest), Kind.REQUEST, request_id=self._fetches))
        answer: list[memoryview] | None = None
        while answer is None:
            for frames in self._stream.receive():
                if check_frames(frames, _FETCH_LIMITS).kind is Kind.REPLY:
                    answer = frames
                else:
                    self._waiting.append(frames)  # the next requests, sent ahead
        message = private_codec.decode(answer)
        return message.buffers[0] if isinstance(message.body, Data) else None

    def next(self) -> list[memoryview]:
        """The next message. Raises StreamClosed when the supervisor is gone."""
        while not self._waiting:
            self._waiting.extend(self._stream.receive())
        return self._waiting.popleft()

    def send(self, frames: list[Buffer]) -> None:
        self._stream.send(frames)

    def recycle(self, frames: list[memoryview]) -> None:
        """A request is dealt with: nothing of it is kept."""
        self._stream.recycle(frames)


def serve_session(supervised: Supervised) -> None:
    """Answer requests in order until the supervisor goes away."""
    session: ExecutorSession | None = None
    while True:
        frames = supervised.next()
        header = check_frames(frames)
        if header.kind is Kind.NOTE:
            begin = private_codec.decode(frames).body
            if isinstance(begin, Begin):
                session = _begin(begin, supervised)
            continue
        try:
            if session is None:
                raise ProtocolError("a request came before its session")
            message = public_codec.decode(frames)
            reply, buffers = session.handle(message.body, message.buffers)
            answer = public_codec.encode(reply, Kind.REPLY, request_id=header.request_id, buffers=buffers)
        except TunefarmError as error:
            answer = encode_error(error, header.request_id)
        except MemoryError as error:
            answer = encode_error(OutOfMemory(f"out of memory: {error}"), header.request_id)
        except Exception as error:  # the box's fault or the function's: the client is told, the session goes on
            answer = encode_error(RemoteError(f"{type(error).__name__}: {error}"), header.request_id)
        supervised.send(answer)
        supervised.recycle(frames)


def _begin(begin: Begin, supervised: Supervised) -> ExecutorSession:
    os.chdir(begin.folder)
    os.environ.update(HOME=begin.folder, TMPDIR=begin.folder, PWD=begin.folder)
    return ExecutorSession(begin.folder, fetch=supervised.fetch, phase=supervised.phase)


def _warm_up() -> None:
    """Use once what a session may need, so that lazy imports happen now, while they can, and not in a trial."""
    native.load()
    flush_caches([])
    spec = ArgSpec("x", "float32", (4,))
    got = empty((4,), "float32").copyfrom(fill(spec, 0, 0)).numpy()
    with tempfile.TemporaryDirectory(dir=".") as folder:
        np.save(f"{folder}/x.npy", got, allow_pickle=False)
        want = np.load(f"{folder}/x.npy", mmap_mode="r", allow_pickle=False)
        disagreement(got, want + 1, "float32", 1e-4, 0.0)
    with contextlib.suppress(TunefarmError):
        load_artifact(Artifact("llvm", (), (), {"object": b""}))
    repr(got)


def main(text: str) -> int:
    settings = msgspec.json.decode(text, type=ExecutorSettings)
    die_with_parent(settings.parent)
    faulthandler.enable()
    stream = FrameStream(socket.socket(fileno=settings.socket))
    for library in settings.libraries:
        ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
    _warm_up()
    limit_resources(settings.memory_limit, settings.max_open_files, settings.cpus)
    warning = ""
    if settings.user:
        warning = become(settings.user)
        die_with_parent(settings.parent)  # changing the user forgot it
    supervised = Supervised(stream)
    gc.collect()
    gc.freeze()
    supervised.hello(warning)
    try:
        serve_session(supervised)
    except StreamClosed:
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
