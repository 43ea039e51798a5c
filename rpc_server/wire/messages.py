"""The closed set of messages between a client, a box's supervisor and its executors.

What the last two say to each other alone is in private_messages.py.

A request names who handles it by its class: a `BoxRequest` the supervisor, an `ExecutorRequest` the
session's executor. Memory handles are chosen by the client (so an allocation need not be waited for), module
handles by the executor. File names are plain names inside the session's folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from rpc_server.wire.bounds import (
    Bytes,
    Count,
    Digests,
    Dtype,
    Handle,
    Index,
    Label,
    Milliseconds,
    OpenShape,
    Path,
    ProcessId,
    Prose,
    Rate,
    Seconds,
    Secret,
    Shape,
    Tries,
    UnixTime,
)
from rpc_server.wire.codec import Buffer, Codec, Message
from rpc_server.wire.machine_messages import Action, Devices, FunctionInfo, Items, ModelTiming
from rpc_server.wire.plain_text import plainly
from rpc_server.wire.trial_messages import MeasureRequest, MeasureResult

CHUNK = 2 << 20  # bytes of an array or blob in one message
WINDOW = 4  # chunks a sender may have unanswered: less than the credit of its connection (`Budget`)
RETURNED_FUNCTION = "returned function"  # the only entry of a module that stands for a function that a call returned
REFERENCE_PHASE = "reference"  # the Phase of a trial in which a death is not the candidate's


class ArrayRef(msgspec.Struct, frozen=True, tag="array"):
    """A remote array as an argument or a result: memory of the session, read as `dtype` and `shape`."""

    handle: Handle
    dtype: Dtype
    shape: Shape


class Raw(msgspec.Struct, frozen=True, tag="bytes"):
    """A bytes argument or result."""

    data: bytes


Value = ArrayRef | Raw | str | bool | int | float | None
_Arguments = Annotated[tuple[Value, ...], Meta(max_length=4096)]
_Handles = Annotated[tuple[Handle, ...], Meta(max_length=1 << 18)]


class EntryInfo(msgspec.Struct, frozen=True):
    """An entry point as a client needs it.
    `args` has (name, dtype, shape or None for a scalar) for each argument."""

    name: Path
    args: Annotated[tuple[tuple[Path, Dtype, OpenShape | None], ...], Meta(max_length=4096)]


class BoxRequest(msgspec.Struct, frozen=True):
    """Handled by the supervisor."""


class ExecutorRequest(msgspec.Struct, frozen=True):
    """Handled by the session's executor."""


class Reply(msgspec.Struct, frozen=True):
    """Answers one request."""


# --- box requests ------------------------------------------------------------------------------------------


class OpenSession(BoxRequest, frozen=True, tag="open"):
    """Ask for an executor. Waits up to `wait_s` for a free one; `session_timeout_s` 0 means no limit."""

    client: Label
    token: Path = ""
    key: Label = ""
    session_timeout_s: Seconds = 0.0
    wait_s: Seconds = 10.0
    restart_on_crash: bool = False


class CloseSession(BoxRequest, frozen=True, tag="close"):
    pass


class CancelCalls(BoxRequest, frozen=True, tag="cancel"):
    """Kill the executor of `session` with the call under way, and drop the calls that wait.
    Comes on a connection of its own, as the session's is waited on; `secret` is what the session was opened with."""

    session: Count
    secret: Secret


class PutBlob(BoxRequest, frozen=True, tag="put_blob"):
    """One chunk (the message's only buffer) of a blob; chunks come in order of `offset`."""

    digest: Label
    size: Bytes
    offset: Bytes


class HasBlobs(BoxRequest, frozen=True, tag="has_blobs"):
    digests: Digests


class BoxInfo(BoxRequest, frozen=True, tag="box_info"):
    """Needs no session."""


class Ping(BoxRequest, frozen=True, tag="ping"):
    """Needs no session."""


class LaneLost(BoxRequest, frozen=True, tag="lane_lost"):
    """Executor `executor_pid` left the lane with `call` unanswered.
    The answer is the error that says how it ended."""

    executor_pid: ProcessId
    call: Prose


# --- executor requests -------------------------------------------------------------------------------------


class AllocateMemory(ExecutorRequest, frozen=True, tag="allocate"):
    """Reserve device memory for an array; its contents are undefined."""

    handle: Handle
    nbytes: Bytes
    device_type: Label = "cpu"
    device_id: Index = 0


class WriteMemory(ExecutorRequest, frozen=True, tag="write"):
    """Copy the message's only buffer to byte `offset` of a memory."""

    handle: Handle
    offset: Bytes


class ReadMemory(ExecutorRequest, frozen=True, tag="read"):
    handle: Handle
    offset: Bytes
    nbytes: Bytes


class CopyMemory(ExecutorRequest, frozen=True, tag="copy"):
    source: Handle
    target: Handle
    nbytes: Bytes


class FreeHandles(ExecutorRequest, frozen=True, tag="free"):
    """Forget memories and modules; unknown handles are ignored."""

    memories: _Handles = ()
    modules: _Handles = ()
    machines: _Handles = ()


class SyncDevice(ExecutorRequest, frozen=True, tag="sync"):
    device_type: Label = "cpu"
    device_id: Index = 0


class PutFile(ExecutorRequest, frozen=True, tag="put_file"):
    """Make a file of the session's folder out of a blob; answered by Need when the box lacks the blob."""

    name: Path
    digest: Label
    size: Bytes


class ReadFile(ExecutorRequest, frozen=True, tag="read_file"):
    name: Path
    offset: Bytes
    nbytes: Bytes


class RemoveFile(ExecutorRequest, frozen=True, tag="remove_file"):
    name: Path


class LoadModule(ExecutorRequest, frozen=True, tag="load_module"):
    """Load a module from a file of the session's folder: an artifact, object, shared library or tar file."""

    name: Path


class OpenSystemLibrary(ExecutorRequest, frozen=True, tag="system_lib"):
    """The module of every function loaded for a `-system-lib` target; answered like LoadModule."""


class LinkModule(ExecutorRequest, frozen=True, tag="link_module"):
    """Write the module in a file of the session's folder as the shared library `output`, beside it."""

    name: Path
    output: Path


class Call(ExecutorRequest, frozen=True, tag="call"):
    """Call a function of a module, or with `module` None a registered global function."""

    module: Handle | None
    function: Path
    args: _Arguments


class FindFunction(ExecutorRequest, frozen=True, tag="find_function"):
    """Answered by Done, or an error when no such global function is registered on the box."""

    function: Path


class TimeFunction(ExecutorRequest, frozen=True, tag="time_function"):
    module: Handle
    function: Path
    args: _Arguments
    device_type: Label = "cpu"
    device_id: Index = 0
    number: Tries = 10
    repeat: Tries = 1
    min_repeat_ms: Milliseconds = 0
    limit_zero_time_iterations: Tries = 100
    cooldown_interval_ms: Milliseconds = 0
    repeats_to_cooldown: Tries = 1
    f_preproc: Path = ""


class OpenMachine(ExecutorRequest, frozen=True, tag="open_machine"):
    """Make a virtual machine of a loaded model.
    `memory`: how memory is kept on all devices, "" for the default."""

    module: Handle
    devices: Devices = (("cpu", 0),)
    memory: Label = ""


class UseMachine(ExecutorRequest, frozen=True, tag="use_machine"):
    """Have a machine do something with one of its functions.
    `saved`: the name that `save` keeps a call under; `peaks`: operations and bytes a second that `profile` compares
    with, unless it is to measure them."""

    machine: Handle
    action: Action
    function: Path
    args: Items = ()
    saved: Path = ""
    include_return: bool = True
    measure_peaks: bool = False
    peaks: tuple[Rate, Rate] | None = None


class TimeMachine(ExecutorRequest, frozen=True, tag="time_machine"):
    """Time a function of a machine; "invoke_stateful" times the one whose name is its only argument."""

    machine: Handle
    function: Path
    args: Items = ()
    device_type: Label = "cpu"
    device_id: Index = 0
    timing: ModelTiming = ModelTiming()


class Measure(ExecutorRequest, frozen=True, tag="measure"):
    request: MeasureRequest


# --- replies -----------------------------------------------------------------------------------------------


class Done(Reply, frozen=True, tag="done"):
    pass


class SessionOpened(Reply, frozen=True, tag="opened"):
    """`lane` and `lane_token`: where a client on the same machine finds its executor; "" when it must not.
    `secret` is for `CancelCalls`."""

    session: Count
    box: Label
    executor_pid: ProcessId
    lane: Label = ""
    lane_token: Secret = b""
    secret: Secret = b""


class BlobStored(Reply, frozen=True, tag="blob_stored"):
    digest: Label
    complete: bool


class BlobsMissing(Reply, frozen=True, tag="blobs_missing"):
    digests: Digests


class Need(Reply, frozen=True, tag="need"):
    """The box lacks these blobs: upload them and ask again."""

    digests: Digests


class BoxStatus(Reply, frozen=True, tag="box_status"):
    """The state of a box.
    `fingerprint` is a `Fingerprint` as builtins. `time` is the box's clock in Unix seconds; `user` runs kernels;
    `memory_limit` is a session's, in bytes, None: none. `disk_free` has the free bytes where sessions keep files,
    and whether code may be run from there. `limits_processes`: whether a session cannot fork without end.
    `isolation` is how far sessions are kept apart (`rpc_server.isolation.levels`), and what `is_open` nevertheless."""

    box: Label
    key: Label
    version: Label
    fingerprint: dict[str, Any]
    sessions: Digests
    warm: Count
    uptime_s: Seconds
    crashes: Count
    time: UnixTime = 0.0
    user: Label = ""
    memory_limit: Bytes | None = None
    disk_free: Bytes = 0
    disk_executes: bool = True
    limits_processes: bool = True
    isolation: Label = ""
    is_open: Annotated[tuple[Prose, ...], Meta(max_length=64)] = ()


class Data(Reply, frozen=True, tag="data"):
    """Bytes in the message's only buffer; `size` is the whole array's or file's."""

    size: Bytes


class ModuleLoaded(Reply, frozen=True, tag="module"):
    handle: Handle
    target: Prose
    entries: Annotated[tuple[EntryInfo, ...], Meta(max_length=65_536)]


class Returned(Reply, frozen=True, tag="returned"):
    value: Value


class MachineOpened(Reply, frozen=True, tag="machine"):
    handle: Handle
    functions: Annotated[tuple[FunctionInfo, ...], Meta(max_length=65_536)]


class MachineReturned(Reply, frozen=True, tag="machine_returned"):
    """The result of a machine's function. A report is the message's only buffer, as JSON."""

    value: Items = ()


class Timings(Reply, frozen=True, tag="timings"):
    """Seconds per call, one per repeat, and what may have disturbed them."""

    seconds: Annotated[tuple[Seconds, ...], Meta(max_length=1 << 20)]
    warnings: Annotated[tuple[Prose, ...], Meta(max_length=64)] = ()


class Measured(Reply, frozen=True, tag="measured"):
    result: MeasureResult


class SessionEnded(msgspec.Struct, frozen=True, tag="session_ended"):
    """A NOTE to the client: its session is over, and why."""

    kind: Label
    reason: Prose


AnyBoxRequest = OpenSession | CloseSession | CancelCalls | PutBlob | HasBlobs | BoxInfo | Ping | LaneLost
AnyExecutorRequest = (
    AllocateMemory
    | WriteMemory
    | ReadMemory
    | CopyMemory
    | FreeHandles
    | SyncDevice
    | PutFile
    | ReadFile
    | RemoveFile
    | LoadModule
    | OpenSystemLibrary
    | LinkModule
    | Call
    | FindFunction
    | TimeFunction
    | OpenMachine
    | UseMachine
    | TimeMachine
    | Measure
)
AnyReply = (
    Done
    | SessionOpened
    | BlobStored
    | BlobsMissing
    | Need
    | BoxStatus
    | Data
    | ModuleLoaded
    | Returned
    | MachineOpened
    | MachineReturned
    | Timings
    | Measured
)
AnyMessage = AnyBoxRequest | AnyExecutorRequest | AnyReply | SessionEnded

public_codec: Codec[AnyMessage] = Codec(AnyMessage)


def decode_answer(frames: Sequence[Buffer]) -> Message[AnyMessage]:
    """Return a box's or executor's message with its text made plain. Raises the error that it carries.

    Values of functions and contents of arrays stay as they are.
    """
    message = public_codec.decode(frames)
    if isinstance(message.body, _TELLING):
        return message._replace(body=plainly(message.body))
    return message


_TELLING = (Measured, BoxStatus, SessionEnded, Timings)
