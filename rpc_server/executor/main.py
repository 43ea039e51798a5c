"""The process that runs user code for one session.

The innermost process of `rpc_server.executor.warden`.

It is started warm, before a session needs it. It talks only to the supervisor, over an inherited socket, and is
killed, never reused, when its session ends. Everything that it may need is imported before it is forked, because an
isolated process may be unable to read its own installation.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import gc
import importlib
import os
import select
import socket
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
from typing import assert_never

import numpy as np

from compiler.artifact import ArgSpec, Artifact
from compiler.errors import DeviceError, TargetError, TunefarmError
from compiler.runtime.core import native
from compiler.runtime.core.backends import DEVICE_BACKENDS
from compiler.runtime.core.ndarray import empty
from compiler.runtime.load import load_artifact
from compiler.runtime.measure.preprocess import flush_caches
from compiler.target import entry_points
from compiler.target.options import find_kind
from rpc_server.errors import OutOfMemory, ProtocolError, RemoteError
from rpc_server.executor.compare import disagreement, fill
from rpc_server.executor.session import ExecutorSession
from rpc_server.executor.trial_subject import end_if_lost
from rpc_server.isolation import landlock
from rpc_server.isolation.kernel import name_process
from rpc_server.isolation.levels import Level
from rpc_server.isolation.limits import EACH, become, die_with_parent, limit_resources, tasks_of
from rpc_server.isolation.syscall_filter import Sockets, filter_system_calls
from rpc_server.isolation.view import gpu_paths, installation
from rpc_server.machine.processes import ExecutorSettings
from rpc_server.wire.codec import Address, Buffer, Limits, MessageKind, check_frames, encode_error
from rpc_server.wire.lane import SPIN_S, WELCOME_S, Lane, LaneServer
from rpc_server.wire.messages import Data, SyncDevice, public_codec
from rpc_server.wire.private_messages import Fetch, Hello, LaneOpened, Phase, private_codec
from rpc_server.wire.shared_window import SharedWindow
from rpc_server.wire.stream import FrameStream, StreamClosed

_FETCH_LIMITS = Limits(max_buffer=1 << 30)


_PROMPT_S = 1e-4  # answers of calls that took no longer than this leave together


class Supervised:
    """The executor's link to its supervisor, and to a client on the lane."""

    def __init__(self, stream: FrameStream, lane: LaneServer) -> None:
        self._stream = stream
        self._lane = lane
        self._waiting: deque[tuple[FrameStream, list[memoryview]]] = deque()
        self._fetches = 0
        self._flushed = 0.0
        self._spin_s = 0.0  # how long to look again before it sleeps

    def hello(self) -> None:
        note = Hello(self._lane.address, self._lane.token)
        self._stream.send(private_codec.encode(note, MessageKind.NOTE))

    def phase(self, name: str, timeout_s: float | None = None) -> None:
        """Say what the call under way does now; `timeout_s` gives it a fresh deadline."""
        self._stream.send(private_codec.encode(Phase(name, timeout_s), MessageKind.NOTE))

    def fetch(self, digest: str) -> memoryview | None:
        """A blob's bytes from the supervisor's store, or None."""
        self._fetches += 1
        self._stream.send(private_codec.encode(Fetch(digest), MessageKind.REQUEST, request_id=self._fetches))
        answer: list[memoryview] | None = None
        while answer is None:
            for frames in self._stream.receive():
                if check_frames(frames, _FETCH_LIMITS).kind is MessageKind.REPLY:
                    answer = frames
                else:
                    self._waiting.append((self._stream, frames))  # the next requests, sent ahead
        message = private_codec.decode(answer)
        return message.buffers[0] if isinstance(message.body, Data) else None

    def next(self) -> tuple[FrameStream, list[memoryview]]:
        """The next message and where to answer it. Raises StreamClosed when the supervisor is gone."""
        while not self._waiting:
            self._wait()
        return self._waiting.popleft()

    def _wait(self) -> None:
        self._flush_lane()
        poll = select.poll()
        for fd in (self._stream.fileno(), *self._lane.descriptors()):
            poll.register(fd, select.POLLIN)
        spin_until = time.monotonic() + self._spin_s if self._spin_s else 0.0
        while not self._waiting:
            ready = [fd for fd, _ in poll.poll(0 if time.monotonic() < spin_until else None)]
            if not ready:
                os.sched_yield()
                continue
            if self._stream.fileno() in ready:
                self._waiting.extend((self._stream, frames) for frames in self._stream.receive())
            if ready != [self._stream.fileno()] and self._look_at_lane():
                return

    def _look_at_lane(self) -> bool:
        """Take what came on the lane. True if the descriptors to wait for have changed."""
        stream = self._lane.stream
        if stream is None:
            if self._lane.look():
                self._spin_s = WELCOME_S
                self._stream.send(private_codec.encode(LaneOpened(), MessageKind.NOTE))
            return True
        try:
            for frames in stream.receive():
                header = check_frames(frames)
                if header.kind is not MessageKind.REQUEST or header.address is not Address.EXECUTOR:
                    raise ProtocolError("only an executor's requests travel on the lane")
                self._waiting.append((stream, frames))
        except (StreamClosed, ProtocolError):
            self._lane.close_stream()
            return True
        return False

    def send(self, to: FrameStream, frames: list[Buffer]) -> None:
        to.put(frames)
        self._spin_s = 0.0 if to is self._stream else SPIN_S
        if to is self._stream:
            to.flush()
        elif not self._waiting or time.monotonic() - self._flushed > _PROMPT_S:
            self._flush_lane()

    def _flush_lane(self) -> None:
        self._flushed = time.monotonic()
        stream = self._lane.stream
        if stream is not None and stream.backlog:
            try:
                stream.flush()
            except StreamClosed:
                self._lane.close_stream()


def serve_session(supervised: Supervised, session: ExecutorSession) -> None:
    """Answer requests in order until the supervisor goes away."""
    while True:
        _answer_next(supervised, session)


def _answer_next(supervised: Supervised, session: ExecutorSession) -> None:
    origin, frames = supervised.next()
    header = check_frames(frames)
    if header.kind is MessageKind.NOTE:
        return
    try:
        message = public_codec.decode(frames)
        reply, buffers = session.handle(message.body, message.buffers)
        answer = public_codec.encode(reply, MessageKind.REPLY, request_id=header.request_id, buffers=buffers)
    except TunefarmError as error:
        if isinstance(error, DeviceError):
            end_if_lost(error)
        answer = encode_error(error, header.request_id)
    except MemoryError as error:
        answer = encode_error(OutOfMemory(f"out of memory: {error}"), header.request_id)
    except Exception as error:  # the box's fault or the function's: the client is told, the session goes on
        answer = encode_error(RemoteError(f"{type(error).__name__}: {error}"), header.request_id)
    supervised.send(origin, answer)


def _window(fd: int) -> SharedWindow | None:
    """Return what the supervisor shares, and the descriptor closed."""
    if fd < 0:
        return None
    try:
        return SharedWindow(fd, made=False)
    finally:
        os.close(fd)


def _session_in(folder: str, supervised: Supervised) -> ExecutorSession:
    os.chdir(folder)
    os.environ.update(HOME=folder, TMPDIR=folder, PWD=folder)
    return ExecutorSession(folder, fetch=supervised.fetch, phase=supervised.phase)


def _find_backends() -> None:
    for kind in DEVICE_BACKENDS.kinds:
        try:
            find_kind(kind)
            DEVICE_BACKENDS.find(kind)
        except TargetError as error:  # of a distribution; told again where the backend is asked for
            print(error, file=sys.stderr)


def warm_up(*, gpu: bool) -> None:
    """Use once what sessions may need.

    Lazy imports then happen now, while they can, and not in a trial. Executors are forked from the calling process,
    so it must have no other thread.
    """
    _find_backends()
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
    if gpu:
        _import_gpu()


def _import_gpu() -> None:
    """Import what drives a GPU. The driver itself is opened by the session, as the user it runs as."""
    with contextlib.suppress(ImportError):  # whoever asks for the device gets to read what is missing
        importlib.import_module("compiler.runtime.cuda.pycuda_driver")
        importlib.import_module("pycuda.driver")
    with contextlib.suppress(ImportError):
        importlib.import_module("pynvml")


def run(
    settings: ExecutorSettings,
    ids: tuple[int, int] | None,
    listener: socket.socket,
    isolate: Callable[[], None] = lambda: None,
) -> int:
    """Run an executor in this process, which is warm, and return its exit status.

    `isolate` takes the machine out of its sight; `ids` are the user and group that it becomes.
    """
    faulthandler.enable()
    name_process("tunefarm-exec")
    stream = FrameStream(socket.socket(fileno=settings.socket), window=_window(settings.window))
    for library in settings.libraries:
        ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
    if settings.plugins:  # what other distributions do when they are imported is no business of the other executors
        entry_points.use_rows(settings.plugins)
        _find_backends()
    lane = LaneServer(listener)
    warm_up = _WarmUp()
    alone = settings.isolation is Level.FULL and settings.user in ("", EACH)
    tasks = 1 if alone else tasks_of(os.geteuid() if ids is None else ids[0])
    isolate()
    limit_resources(
        None if settings.gpu else settings.memory_limit,  # CUDA maps far more addresses than it uses memory
        settings.max_open_files,
        settings.cpus,
        settings.disk_limit,
        settings.max_processes + tasks,
    )
    if ids is not None:
        parent = os.getppid()  # 0 in a PID namespace: nobody that is seen here
        become(*ids)
        die_with_parent(parent)  # changing the user forgot it
    _hold_back(settings)
    supervised = Supervised(stream, lane)
    session = _session_in(settings.folder, supervised)
    warm_up.perform(session)
    gc.collect()
    gc.freeze()
    supervised.hello()
    try:
        serve_session(supervised, session)
    except StreamClosed:
        return 0
    return 0


class _WarmUp:
    """Let a made-up client in and answer it before real ones come.
    A forked process pays for its first write to each page, so the pages are written here. Call it before the process
    gets its limits, and before sockets are refused."""

    def __init__(self) -> None:
        self._server = LaneServer()
        self._client = Lane(self._server.address, self._server.token)

    def perform(self, session: ExecutorSession) -> None:
        ours, theirs = socket.socketpair()
        supervisor, supervised = FrameStream(ours), Supervised(FrameStream(theirs), self._server)
        asked = SyncDevice("cpu", 0)
        supervisor.send(public_codec.encode(asked, MessageKind.REQUEST, request_id=1, address=Address.EXECUTOR))
        _answer_next(supervised, session)  # and lets the client in, which has come already
        supervisor.receive()
        for _ in range(2):
            if self._server.stream is None:  # there was no memory for both ends of the lane
                break
            number = self._client.send(asked)
            self._client.flush()
            _answer_next(supervised, session)
            self._client.wait(number)
        self._client.close()
        self._server.close()
        for end in (ours, theirs):
            end.close()


def _hold_back(settings: ExecutorSettings) -> None:
    """Refuse this process what its isolation level refuses.
    What the kernel lacks, the server logged at its start."""
    match settings.isolation:
        case Level.FULL:
            with contextlib.suppress(OSError):
                filter_system_calls(Sockets.OF_ITS_NETWORK)
        case Level.PARTIAL:
            devices = ("/dev/null", "/dev/zero", "/dev/full", *(gpu_paths() if settings.gpu else ()))
            seen = ("/proc", "/sys", "/dev/random", "/dev/urandom", *settings.libraries)
            with contextlib.suppress(OSError):
                landlock.restrict((*installation(), *seen), (settings.folder, *devices))
            with contextlib.suppress(OSError):
                filter_system_calls(Sockets.UNIX if settings.gpu else Sockets.NONE)
        case Level.NONE:
            pass
        case _:
            assert_never(settings.isolation)
