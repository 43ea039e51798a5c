"""The checks of `tunefarm doctor`: findings about a tracker, a box, and a kernel run on it."""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from statistics import median, pstdev

from compiler.driver.build import compile_artifact
from compiler.errors import TunefarmError
from compiler.target.target import Target
from rpc_server.client.connect import box_status, open_session
from rpc_server.client.session import RPCSession
from rpc_server.machine.fingerprint import Fingerprint
from rpc_server.machine.hours import next_opening
from rpc_server.relay.passes import shown_address, split_via
from rpc_server.wire.keys import KeyRing
from rpc_server.wire.messages import BoxStatus
from rpc_server.wire.sockets import is_loopback, resolve
from rpc_server.wire.tracker_records import DeviceInfo
from rpc_server.wire.trial_messages import EvaluatorOptions, MeasureRequest
from tracker.client import TrackerSession
from tracker.wait_text import span
from tunefarm.version import __version__
from tuner.devices.supplies import device_target
from tuner.task import TuningTask
from tuner.untuned import device_type, runnable

_CLOCK_S = 5.0
_NOISE = 0.05
_DISK = 1 << 30
_MEMORY = 1 << 30
_KERNEL = "matmul:128,128,128:float32"
_OPTIONS = EvaluatorOptions(number=1, repeat=10, min_repeat_ms=5)
_WAIT_S = 10.0


class Grade(StrEnum):
    OK = "ok"
    WARNING = "warning"
    WRONG = "wrong"


@dataclass(frozen=True)
class Diagnosis:
    """One thing that was looked at: what was found, and `todo` when it is not as it should be."""

    subject: str
    about: str
    level: Grade
    text: str
    todo: str = ""


def failed(subject: str, about: str, error: TunefarmError) -> Diagnosis:
    return Diagnosis(subject, about, Grade.WRONG, error.message, error.hint or "")


def examine_server(
    host: str, port: int, keys: KeyRing, token: str = "", server_key: str = "", device: str = ""
) -> Iterator[Diagnosis]:
    """Findings about a box, as they come: what it says of itself, then a session with a kernel.
    They are about the `device`, if one is named: boxes behind a relay have one address."""
    shown = shown_address(host, port)
    name = device or shown
    try:
        start = time.time()
        status = box_status(host, port, keys=keys, server_key=server_key)
        delay = time.time() - start
    except TunefarmError as error:
        yield failed(name, "reachable", error)
        return
    yield Diagnosis(name, "reachable", Grade.OK, f"{status.box} answers in {1000 * delay:.1f} ms")
    yield encryption(name, host, bool(server_key or keys.known().get(shown)))
    yield from judge_status(name, status, __version__, start + delay / 2)
    if status.sessions and not token:
        yield Diagnosis(name, "session", Grade.WARNING, "it is in use: no kernel was run", "try again when it is free")
        return
    try:
        with contextlib.closing(
            open_session(host, port, token=token, keys=keys, server_key=server_key, wait_s=_WAIT_S)
        ) as session:
            yield Diagnosis(name, "session", Grade.OK, "a session opens")
            yield upload(name, session)
            yield from kernel(name, session)
    except TunefarmError as error:
        yield failed(name, "session", error)


def encryption(name: str, host: str, keyed: bool) -> Diagnosis:
    """Whether the connection is encrypted, where others could listen."""
    if keyed:
        return Diagnosis(name, "keys", Grade.OK, "encrypted; the other side proved its key")
    if is_loopback(resolve(split_via(host)[1], 1)[0]):
        return Diagnosis(name, "keys", Grade.OK, "no keys, and reachable from this machine only")
    todo = "run `tunefarm keys new` on both sides; see docs/security.md"
    return Diagnosis(name, "keys", Grade.WARNING, "not encrypted, and anybody who reaches it may use it", todo)


def judge_status(name: str, status: BoxStatus, version: str, now: float) -> Iterator[Diagnosis]:
    """Judge a box's status. `now`: when it said so, by this machine's clock."""

    def found(about: str, good: bool, text: str, todo: str, bad: Grade = Grade.WARNING) -> Diagnosis:
        return Diagnosis(name, about, Grade.OK if good else bad, text, "" if good else todo)

    fingerprint = Fingerprint.from_builtins(status.fingerprint)
    same = status.version == version
    yield found("version", same, status.version if same else f"it runs {status.version}, this is {version}",
                "install the same version on both", Grade.WRONG)  # fmt: skip
    if fingerprint.gpu:
        memory = f"{fingerprint.gpu_memory / 2**30:.0f} GiB"
        parts = (fingerprint.gpu, fingerprint.gpu_arch, memory, f"CUDA {fingerprint.driver}", fingerprint.gpu_uuid)
        yield found("GPU", True, ", ".join(parts), "")
    off = abs(status.time - now)
    yield found("clock", off <= _CLOCK_S, f"{off:.1f} s off this machine's", "set both clocks by NTP")
    governor = fingerprint.governor
    yield found("governor", governor in ("", "performance"), governor or "not readable here (virtual?)",
                "clock speeds will wander: `cpupower frequency-set -g performance` on the box")  # fmt: skip
    limit = status.memory_limit
    shown = "no limit" if limit is None else f"{limit / 2**30:.1f} GiB a session"
    yield found("memory", limit is not None and limit >= _MEMORY, shown,
                "set one of at least 1 GiB: `tunefarm server --memory-limit`")  # fmt: skip
    yield found("user", status.user != "root", f"kernels run as {status.user}",
                "start the server so that it can become another user: `tunefarm server --user`")  # fmt: skip
    if status.isolation:
        is_open = f"; not kept apart: {'; '.join(status.is_open)}" if status.is_open else ""
        yield found("isolation", status.isolation == "full", status.isolation + is_open,
                    "docs/security.md says what full isolation of sessions takes")  # fmt: skip
    limited = status.limits_processes
    yield found("processes", limited, "limited" if limited else "kernels run as root may fork without end",
                "start it so that it can become another user, or make control groups (Delegate=pids)")  # fmt: skip
    yield found("disk", status.disk_free >= _DISK, f"{status.disk_free / 2**30:.1f} GiB free for sessions",
                "make room in the folder for temporary files (TMPDIR)")  # fmt: skip
    yield found("exec", status.disk_executes, "code may run from the session folder" if status.disk_executes
                else "the session folder is mounted noexec", "start the server with TMPDIR on another file system",
                Grade.WRONG)  # fmt: skip
    yield found("crashes", True, f"{status.crashes} executors crashed in {span(status.uptime_s)}", "")


def upload(name: str, session: RPCSession) -> Diagnosis:
    """A file sent there and back."""
    data = hashlib.sha256(name.encode()).digest() * 4096
    start = time.monotonic()
    session.upload(data, "doctor.bin")
    same = bytes(session.download("doctor.bin")) == data
    took = f"{len(data) >> 10} KiB there and back in {1000 * (time.monotonic() - start):.0f} ms"
    if same:
        return Diagnosis(name, "upload", Grade.OK, took)
    return Diagnosis(name, "upload", Grade.WRONG, "what came back differs from what was sent", "check the network")


def kernel(name: str, session: RPCSession) -> Iterator[Diagnosis]:
    """A kernel built here for the box's target, run there, compared and timed."""
    found = session.fingerprint()
    task = TuningTask.from_spec(_KERNEL, Target(device_target(found.target, found.threads)))
    artifact = compile_artifact(runnable(task.func, task.target), task.target, name="main")
    request = MeasureRequest(
        artifact=artifact.digest,
        reference=artifact.digest,
        options=_OPTIONS,
        timeout_s=60.0,
        device_type=device_type(artifact),
    )
    result = session.measure(request, (artifact,))
    if result.failure is not None:
        todo = "have the box checked: `tunefarm check`"
        yield Diagnosis(name, "kernel", Grade.WRONG, f"{result.failure}: {result.text}", todo)
        return
    yield Diagnosis(name, "kernel", Grade.OK, f"{task.name} runs and its output agrees")
    yield noise(name, result.costs)


def noise(name: str, costs: tuple[float, ...] | list[float]) -> Diagnosis:
    """How much the times of one kernel scatter."""
    share = pstdev(costs) / median(costs)
    text = f"times scatter by {100 * share:.1f} %"
    if share <= _NOISE:
        return Diagnosis(name, "noise", Grade.OK, text)
    todo = "something else runs there: stop it, or give the server cores of its own with --cores"
    return Diagnosis(name, "noise", Grade.WARNING, text, todo)


def examine_tracker(session: TrackerSession, keys: KeyRing) -> Iterator[Diagnosis]:
    """Findings about a tracker and about every device that can be leased now."""
    start = time.monotonic()
    devices = session.devices()
    count = "1 device" if len(devices) == 1 else f"{len(devices)} devices"
    text = f"answers in {1000 * (time.monotonic() - start):.1f} ms and knows {count}"
    yield Diagnosis(session.address, "tracker", Grade.OK, text)
    if not devices:
        todo = f"start one: tunefarm server --tracker {session.address}"
        yield Diagnosis(session.address, "devices", Grade.WRONG, "no device is registered", todo)
    for device in devices:
        state = judge_device(device)
        yield state
        if device.state == "ready":
            yield from _leased(session, device, keys)


def judge_device(device: DeviceInfo) -> Diagnosis:
    """Return what a device's state means."""
    text = f"{device.state}: {device.reason}" if device.reason else device.state
    todo = {
        "suspect": "it is checked by itself; `tunefarm check` does so now",
        "quarantined": f"see to the reason, then `tunefarm unquarantine {device.id}`",
        "draining": f"`tunefarm undrain {device.id}` lends it again",
        "gone": "start its server again, or look at its log",
        "closed": "clients cannot reach it: see to what the reason names",
    }.get(device.state, "")
    if device.state == "closed" and next_opening(device.reason):
        return Diagnosis(device.id, "state", Grade.OK, f"{text}; it is looked at when it is open")
    level = {"ready": Grade.OK, "leased": Grade.OK, "draining": Grade.WARNING}.get(device.state, Grade.WRONG)
    return Diagnosis(device.id, "state", level, text, todo)


def _leased(session: TrackerSession, device: DeviceInfo, keys: KeyRing) -> Iterator[Diagnosis]:
    try:
        held = session.lease(f'device="{device.id}"', wait_s=_WAIT_S)
    except TunefarmError as error:
        yield failed(device.id, "lease", error)
        return
    with held:
        yield Diagnosis(device.id, "lease", Grade.OK, "granted")
        yield from examine_server(held.host, held.port, keys, held.token, held.box_key, device.id)
