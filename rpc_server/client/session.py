"""A session on a device box, as its client has it."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from compiler.artifact import Artifact
from compiler.errors import ArgumentError
from compiler.runtime.core.device import canonical_type
from compiler.runtime.core.packed import PackedFunc
from compiler.runtime.core.registry import RegistryError
from rpc_server.client.connection import CONNECT_TIMEOUT_S, Connection
from rpc_server.client.host_memory_pool import HostMemoryPool
from rpc_server.client.machine import RemoteMachine
from rpc_server.client.remote import RemoteAPI, RemoteFunction, RPCDevice, RPCModule
from rpc_server.client.session_channel import PendingCall, SessionChannel
from rpc_server.errors import ProtocolError, RemoteFileError, RPCError, SessionClosed
from rpc_server.executor.session_files import check_name
from rpc_server.machine.blobs import BlobError, blob_digest
from rpc_server.machine.fingerprint import Fingerprint
from rpc_server.machine.memory import expect_big_buffers
from rpc_server.wire import messages
from rpc_server.wire.codec import Address, Buffer, Message, expect, only_buffer
from rpc_server.wire.trial_messages import FailureKind, MeasureRequest, MeasureResult

_CLOSE_TIMEOUT_S = 2.0


class NoSuchFunctionError(RegistryError, AttributeError, kind="no_such_function"):
    """Nobody has registered a function of that name.
    Neither the box has, nor in a session without a network this process."""


class RPCSession:
    """A session on a box: its own process there, ended by `close()`, a crash, or the end of this process.

    Also a context manager. Usable from several threads; their requests take turns.
    """

    def __init__(
        self, connection: Connection, opened: messages.SessionOpened, call_timeout: float | None = None,
        enable_logging: bool = False, dial: Callable[[], Connection] | None = None,
    ) -> None:  # fmt: skip
        self.address = connection.address
        self.box = opened.box
        self.executor_pid = opened.executor_pid
        self.device_api = RemoteAPI()
        self.host_memory = HostMemoryPool()
        self.own_function: Callable[[str], PackedFunc] | None = None  # finds what the box has not, in this process
        self._connection = connection
        self._opened = opened
        self._dial = dial
        self._channel = SessionChannel(connection, opened, call_timeout, enable_logging)
        self._sent: set[str] = set()  # blobs the box was given and may still have
        self._blob_of: dict[str, str] = {}  # Artifact.digest → digest of the bytes sent for it
        self._on_close: list[tuple[Callable[[], None], Callable[[], None]]] = []

    def __repr__(self) -> str:
        return f"<RPCSession on {self.box} at {self.address}>"

    # --- devices ------------------------------------------------------------------------------------------

    def device(self, dev_type: str, dev_id: int = 0) -> RPCDevice:
        """A device of the box. Raises DeviceNameError (a ValueError) for an unknown type."""
        return RPCDevice(canonical_type(dev_type), dev_id, session=self)

    def cpu(self, dev_id: int = 0) -> RPCDevice:
        return self.device("cpu", dev_id)

    def cuda(self, dev_id: int = 0) -> RPCDevice:
        return self.device("cuda", dev_id)

    def opencl(self, dev_id: int = 0) -> RPCDevice:
        return self.device("opencl", dev_id)

    def cl(self, dev_id: int = 0) -> RPCDevice:
        return self.device("cl", dev_id)

    def vulkan(self, dev_id: int = 0) -> RPCDevice:
        return self.device("vulkan", dev_id)

    def metal(self, dev_id: int = 0) -> RPCDevice:
        return self.device("metal", dev_id)

    def mtl(self, dev_id: int = 0) -> RPCDevice:
        return self.device("mtl", dev_id)

    def rocm(self, dev_id: int = 0) -> RPCDevice:
        return self.device("rocm", dev_id)

    def ext_dev(self, dev_id: int = 0) -> RPCDevice:
        return self.device("ext_dev", dev_id)

    def hexagon(self, dev_id: int = 0) -> RPCDevice:
        return self.device("hexagon", dev_id)

    def webgpu(self, dev_id: int = 0) -> RPCDevice:
        return self.device("webgpu", dev_id)

    # --- files and modules --------------------------------------------------------------------------------

    def upload(self, data: str | os.PathLike[str] | bytes | bytearray, target: str | None = None) -> None:
        """Put a file into the session's folder: `data` is a path, or bytes with a `target` name.

        The name is `target`, or the path's last part. A blob the box has is not sent again.
        Raises RemoteFileError for a name with folders in it, or a file that cannot be read here.
        """
        if isinstance(data, bytes | bytearray):
            if target is None:
                raise RemoteFileError("bytes need a target name", hint="upload(data, target='name.tunefarm')")
            content: Buffer = data
        else:
            try:
                content = Path(data).read_bytes()
            except OSError as error:
                raise RemoteFileError(f"cannot read {os.fspath(data)!r}: {error.strerror}") from None
            target = target or Path(data).name
        digest = blob_digest(content)
        put = messages.PutFile(check_name(target), digest, len(content))
        if isinstance(self.request(put).body, messages.Need):
            self._channel.put_blob(digest, content)
            if isinstance(self.request(put).body, messages.Need):
                raise RemoteFileError(f"{self.box} did not keep {target!r}", hint="its blob store may be too small")

    def download(self, path: str) -> bytearray:
        """A file of the session's folder. Raises RemoteFileError when there is none."""
        name = check_name(path)
        first = self.request(messages.ReadFile(name, 0, messages.CHUNK))
        size = expect(messages.Data, first.body).size
        content = bytearray(only_buffer(first, min(size, messages.CHUNK)))
        starts = range(messages.CHUNK, size, messages.CHUNK)
        for at, answer in zip(
            starts, self._channel.stream((messages.ReadFile(name, at, messages.CHUNK), ()) for at in starts)
        ):
            content += only_buffer(answer, min(size - at, messages.CHUNK))
        return content

    def remove(self, path: str) -> None:
        """Delete a file of the session's folder. Raises RemoteFileError when there is none."""
        self.request(messages.RemoveFile(check_name(path)))

    def load_module(self, path: str) -> RPCModule:
        """Load an uploaded module: what `save` or `export_library` wrote, of any kind.
        Functions of modules that it imports are among its own. Raises ArtifactError when the box cannot run it,
        RemoteFileError when there is none."""
        return self._loaded(messages.LoadModule(check_name(path)))

    def system_lib(self) -> RPCModule:
        """The functions of every module for a `-system-lib` target that the session has loaded."""
        return self._loaded(messages.OpenSystemLibrary())

    def download_linked_module(self, path: str) -> bytearray:
        """An uploaded module as a shared library, linked on the box with the box's linker.

        Raises ArtifactError for a file that is no module, LinkError when the box has no linker.
        """
        name = check_name(path)
        output = name.rsplit(".", 1)[0] + ".linked.so"
        self.request(messages.LinkModule(name, output))
        try:
            return self.download(output)
        finally:
            self.remove(output)

    def _loaded(self, request: messages.LoadModule | messages.OpenSystemLibrary) -> RPCModule:
        return self.module_of(expect(messages.ModuleLoaded, self.request(request).body))

    def module_of(self, loaded: messages.ModuleLoaded) -> RPCModule:
        """Return the module of the box that an answer names."""
        return RPCModule(self, loaded, RemoteMachine)

    def get_function(self, name: str) -> PackedFunc:
        """A function registered on the box by `register_func`. Raises NoSuchFunctionError when there is none."""
        try:
            self.request(messages.FindFunction(name))
            return RemoteFunction(self, name)
        except RegistryError as error:
            missing = NoSuchFunctionError(error.message, hint=error.hint)
        if self.own_function is None:
            raise missing
        try:
            return self.own_function(name)
        except RegistryError:
            raise missing from None

    # --- trials -------------------------------------------------------------------------------------------

    def measure(self, request: MeasureRequest, artifacts: Sequence[Artifact] = ()) -> MeasureResult:
        """Run one trial in one round trip. `artifacts` are those the request names by `Artifact.digest`.

        Whatever the candidate does comes back as a result. Raises SessionClosed when the box or the session is gone,
        and ArgumentError when an artifact is named that was never passed.
        """
        passed = {artifact.digest: artifact for artifact in artifacts}
        named = [digest for digest in (request.artifact, request.reference) if digest is not None]
        data = {self._blob_name(digest, passed): digest for digest in named}
        sent = msgspec.structs.replace(
            request,
            artifact=self._blob_of[request.artifact],
            reference=None if request.reference is None else self._blob_of[request.reference],
        )
        unsent = [blob for blob in data if blob not in self._sent]
        for _ in range(2):
            contents = {blob: _runtime_bytes(data[blob], passed) for blob in unsent}
            reply, problem = self._try_measure(sent, contents)
            if isinstance(reply, messages.Measured):
                self._sent.update(data)
                return reply.result
            needed = expect(messages.Need, reply).digests
            if problem is not None:
                return MeasureResult(failure=FailureKind.UPLOAD, text=str(problem))
            if not set(needed) <= set(data):
                raise ProtocolError(f"{self.box} asks for blobs that the trial does not name")
            unsent = list(needed)
        return MeasureResult(failure=FailureKind.UPLOAD, text=f"{self.box} did not keep the artifact")

    def _try_measure(
        self, request: MeasureRequest, contents: dict[str, bytes]
    ) -> tuple[messages.AnyMessage, RPCError | None]:
        """Send blobs and the trial without waiting in between; the trial's answer, and the blobs' fault."""
        problem: RPCError | None = None
        limit = request.timeout_s + (request.reference_timeout_s if request.reference else 0.0)
        with self._channel.lock:
            offered = [n for blob, content in contents.items() for n in self._channel.offer_blob(blob, content)]
            number = self._channel.relay(messages.Measure(request), (), Address.TRIAL, request.timeout_s)
            for chunk in offered:
                try:
                    self._connection.wait(chunk)
                except BlobError as error:
                    problem = problem or error
            return self._connection.wait(number, limit).body, problem

    def _blob_name(self, digest: str, passed: dict[str, Artifact]) -> str:
        """The digest of the bytes an artifact is sent as."""
        blob = self._blob_of.get(digest)
        if blob is None:
            blob = self._blob_of[digest] = blob_digest(_runtime_bytes(digest, passed))
        return blob

    # --- the session itself -------------------------------------------------------------------------------

    def fingerprint(self) -> Fingerprint:
        """Return what the box is."""
        return Fingerprint.from_builtins(self.status().fingerprint)

    def status(self) -> messages.BoxStatus:
        """The box's own account: sessions, warm executors, crashes."""
        return expect(
            messages.BoxStatus, self._connection.request(messages.BoxInfo(), timeout_s=CONNECT_TIMEOUT_S).body
        )

    @property
    def is_open(self) -> bool:
        return self._connection.over is None

    def cancel(self) -> None:
        """Stop everything the session has under way or waiting: those calls raise Cancelled.

        Any thread may call it. The executor is killed. A session that only measures goes on with a new one; any other
        has lost its arrays and modules and is over, as after a crash. Other sessions of the box notice nothing. Raises
        SessionClosed when the session is over already, and ConnectError when the box cannot be reached.
        """
        if self._dial is None or not self.is_open:
            raise SessionClosed(f"the session with {self.address} is over")
        line = self._dial()  # the session's own may be waited on by another thread
        try:
            line.request(messages.CancelCalls(self._opened.session, self._opened.secret), timeout_s=CONNECT_TIMEOUT_S)
        finally:
            line.close()

    def on_close(self, callback: Callable[[], None], when_collected: Callable[[], None] | None = None) -> None:
        """Call `callback` once, after `close()` has ended the session.
        If the garbage collector ends it, `when_collected` is called instead, at any point of any thread, so it must
        not wait for a lock."""
        self._on_close.append((callback, when_collected or callback))

    def close(self) -> None:
        """End the session; its arrays, modules and files are gone. Harmless when it is over already."""
        with self._channel.lock:
            callbacks, self._on_close = self._on_close, []
            if self._connection.over is None:
                with contextlib.suppress(RPCError):
                    number = self._connection.send(messages.CloseSession())
                    self._connection.wait(number, _CLOSE_TIMEOUT_S, grace_s=0.0)
            self._channel.leave_lane()
            self._connection.close()
            self.host_memory.close()
        for closed, _ in callbacks:
            closed()

    def __del__(self) -> None:
        if getattr(self, "_on_close", None) is not None and not sys.is_finalizing():
            self._channel.leave_lane()
            self._connection.close()
            callbacks, self._on_close = self._on_close, []
            for _, collected in callbacks:
                collected()

    def __enter__(self) -> RPCSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- for remote devices and modules -------------------------------------------------------------------

    @property
    def call_timeout(self) -> float | None:
        """Deadline of calls, in seconds; None: none. `measure` brings its own."""
        return self._channel.call_timeout

    @call_timeout.setter
    def call_timeout(self, seconds: float | None) -> None:
        self._channel.call_timeout = seconds

    def request(
        self, body: messages.AnyExecutorRequest, buffers: Sequence[Buffer] = (), timeout_s: float | None = None
    ) -> Message[messages.AnyMessage]:
        """Ask the executor and wait for its answer; raises the error it answers with."""
        return self._channel.request(body, buffers, timeout_s)

    def submit(self, body: messages.AnyExecutorRequest, buffers: Sequence[Buffer] = ()) -> PendingCall:
        """Ask the executor and go on: `wait` of the result collects the answer."""
        return self._channel.submit(body, buffers)

    def free_later(self, handles: messages.FreeHandles) -> None:
        """Have handles freed with the next request. Called by the garbage collector: it must not block."""
        self._channel.free_later(handles)

    def write_memory(self, handle: int, data: memoryview) -> None:
        """Fill remote memory from its start, in chunks."""
        view = data.cast("B")
        self._channel.pipeline(
            (messages.WriteMemory(handle, at), (view[at : at + messages.CHUNK],))
            for at in range(0, max(len(view), 1), messages.CHUNK)
        )

    def read_memory(self, handle: int, out: memoryview) -> None:
        """Fill `out` from the start of remote memory, in chunks."""
        view = out.cast("B")
        if len(view) <= messages.CHUNK:
            view[:] = only_buffer(self.request(messages.ReadMemory(handle, 0, len(view))), len(view))
            return
        expect_big_buffers()
        starts = range(0, len(view), messages.CHUNK)
        requests = ((messages.ReadMemory(handle, at, min(messages.CHUNK, len(view) - at)), ()) for at in starts)
        for at, answer in zip(starts, self._channel.stream(requests)):
            end = min(at + messages.CHUNK, len(view))
            view[at:end] = only_buffer(answer, end - at)


def _runtime_bytes(digest: str, passed: dict[str, Artifact]) -> bytes:
    artifact = passed.get(digest)
    if artifact is None:
        raise ArgumentError(
            f"the trial names artifact {digest[:12]}, which was not passed", hint="pass it in `artifacts`"
        )
    return artifact.runtime_only().to_bytes()
