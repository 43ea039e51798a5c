"""A box's agent: a thread that lends the box out through a tracker.

It dials the tracker, again and again if there is none, and passes its decisions into the `LeaseTable` that the
supervisor obeys. `RegistrarCore` decides what it says and when.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from queue import Empty, SimpleQueue
from typing import assert_never

import zmq

from compiler.errors import TunefarmError
from rpc_server.errors import ConnectError
from rpc_server.farm_link.leases import LeaseTable
from rpc_server.farm_link.registrar_core import Action, Allow, Forbid, Note, RegistrarCore, RunCheck, SendToTracker
from rpc_server.machine.fingerprint import Fingerprint
from rpc_server.machine.gpus import Gpu
from rpc_server.machine.health import Health
from rpc_server.machine.hours import Hours
from rpc_server.wire.codec import MessageKind
from rpc_server.wire.curve import PeerKeys, secure_client
from rpc_server.wire.polling import poll_ms
from rpc_server.wire.sockets import Liveness, endpoint, prepare, receive_message, resolve, send_frames
from rpc_server.wire.tracker_messages import LIMITS, to_box, to_tracker
from rpc_server.wire.tracker_records import Attribute, DeviceSpec, Scores
from rpc_server.wire.waker import Waker

logger = logging.getLogger("rpc_server.registrar")

LIVENESS = Liveness(interval_s=2.0, timeout_s=8.0)
_RECONNECT_MS = (50, 2000)
_REPORT_POLL_S = 0.003
_BURST = 256

Check = Callable[[int, Scores | None], Health]
"""Checks the device in a slot, given the scores it once had: whether it is fit to be lent, and what was found."""


def split_address(text: str, default_port: int | None = None) -> tuple[str, int]:
    """`host:port`, `[v6]:port`, or just a host when there is a default port. Raises ConnectError."""
    host, colon, port = text.rpartition(":")
    if not colon and default_port is not None:
        host, port = text, str(default_port)
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ConnectError(f"{text!r} is no address", hint="write HOST:PORT, for example 127.0.0.1:9190")
    return host, int(port)


def cpu_device(fingerprint: Fingerprint, slot: int = 0, key: str = "", tags: Sequence[str] = ()) -> DeviceSpec:
    """A box's CPU as a lendable device.
    Key and tag are `cpu` by default. Requests can ask for these attributes: arch, cores and threads (those lent),
    memory (bytes), features, cpu_model, target, host, kernel, governor and virtual (0 or 1)."""
    attributes: dict[str, Attribute] = {
        "arch": fingerprint.cpu_name,
        "cores": fingerprint.usable_cores or min(fingerprint.cores, fingerprint.threads),
        "threads": fingerprint.threads,
        "memory": fingerprint.memory,
        "features": fingerprint.features,
        "cpu_model": fingerprint.cpu_model,
        "target": fingerprint.target,
        "host": fingerprint.hostname,
        "kernel": fingerprint.kernel,
        "governor": fingerprint.governor,
        "virtual": int(fingerprint.virtual),
    }
    return DeviceSpec(
        slot=slot,
        key=key or "cpu",
        tags=tuple(dict.fromkeys((*tags, "cpu"))),
        attributes=attributes,
        fingerprint=fingerprint.device_class,
    )


def gpu_device(fingerprint: Fingerprint, gpu: Gpu, key: str = "", tags: Sequence[str] = ()) -> DeviceSpec:
    """A box's GPU as a lendable device.
    Key and tag are `gpu` by default. The attributes are arch, gpu, uuid, memory (bytes), multiprocessors, clock
    (kHz), shared (bytes of a block), driver and temperature (°C, when the server started). There are also target,
    threads (of the host), host and kernel."""
    attributes: dict[str, Attribute] = {
        "arch": gpu.arch,
        "gpu": gpu.name,
        "uuid": gpu.uuid,
        "memory": gpu.memory,
        "multiprocessors": gpu.multiprocessors,
        "clock": gpu.clock,
        "shared": gpu.shared,
        "driver": gpu.driver,
        "target": fingerprint.target,
        "threads": fingerprint.threads,
        "host": fingerprint.hostname,
        "kernel": fingerprint.kernel,
    }
    if gpu.temperature is not None:
        attributes["temperature"] = gpu.temperature
    return DeviceSpec(
        slot=0,
        key=key or "gpu",
        tags=tuple(dict.fromkeys((*tags, "gpu", "cuda", gpu.arch, gpu.arch.rstrip("af")))),
        attributes=attributes,
        fingerprint=fingerprint.device_class,
    )


class Registrar:
    """Registers a box with the tracker at `tracker` ("host:port") from `start` to `stop`.

    `address` is where clients reach the box, `host:port`; with an empty host the tracker takes the one it sees
    the box come from. `check` runs before the box registers, and in a thread of its own whenever the tracker wants
    a device checked; without one, a box that answers counts as fit.

    `hours` limit when the box is lent; `end_at_close` ends its leases at closing time. The box is not lent either
    while `unreachable` says why clients cannot reach it; `wake` makes the thread ask that.

    Raises ConnectError when `tracker` is no address or an unknown host.
    """

    def __init__(
        self, tracker: str, *, box: str, address: str, devices: Sequence[DeviceSpec], leases: LeaseTable,
        check: Check | None = None, keys: PeerKeys | None = None, hours: Hours | None = None,
        end_at_close: bool = False, unreachable: Callable[[], str] = lambda: "",
    ) -> None:  # fmt: skip
        self._hours = hours
        self._unreachable = unreachable
        self._end_at_close = end_at_close
        host, port = split_address(tracker)
        self._keys = keys
        self._endpoint = endpoint(resolve(host, port)[0], port)
        self._core = RegistrarCore(secrets.token_hex(16), box, address, devices, f"tracker {tracker}")
        self._leases = leases
        self._check = check
        self._checked: SimpleQueue[tuple[int, Health]] = SimpleQueue()
        self._checking: set[int] = set()
        self._suspects: SimpleQueue[tuple[int, str]] = SimpleQueue()
        self._waker = Waker()
        self._stop_reason: str | None = None
        self._thread = threading.Thread(target=self._run, name="registrar", daemon=True)

    @property
    def registered(self) -> bool:
        """Whether the tracker has welcomed the box and the connection stands."""
        return self._core.registered

    @property
    def refusal(self) -> str:
        """Why the tracker does not take the box, or ""."""
        return self._core.refusal

    def start(self) -> None:
        self._thread.start()

    def stop(self, reason: str = "the server shuts down", timeout_s: float = 3.0) -> None:
        """Say goodbye and end the thread. Leases end."""
        self._stop_reason = reason
        self.wake()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def suspect(self, slot: int, reason: str) -> None:
        """Ask that a device be lent no more until it passes a check. Safe in any thread."""
        self._suspects.put((slot, reason))
        self.wake()

    def wake(self) -> None:
        """Make the thread look at everything again. Safe in any thread."""
        self._waker.wake()

    # The thread

    def _run(self) -> None:
        context = zmq.Context()
        try:
            if self._check is not None:
                for spec in self._core.devices:
                    self._core.checked_at_start(spec.slot, self._health_of(spec.slot, None), time.monotonic())
            while self._stop_reason is None:
                sock = self._connect(context)
                try:
                    self._talk(sock)
                except Exception:  # a defect must not take the box off the farm for good
                    logger.exception("the tracker's agent failed; it starts again")
                    self._core.cut_off(time.monotonic())
                    time.sleep(1.0)
                finally:
                    sock.close(linger=500)
        finally:
            context.term()

    def _connect(self, context: zmq.Context[zmq.Socket[bytes]]) -> zmq.Socket[bytes]:
        sock = context.socket(zmq.DEALER)
        prepare(sock, LIVENESS, LIMITS)
        secure_client(sock, self._keys)
        sock.setsockopt(zmq.IMMEDIATE, 1)  # nothing is queued for a tracker that is not there
        sock.setsockopt(zmq.RECONNECT_IVL, _RECONNECT_MS[0])
        sock.setsockopt(zmq.RECONNECT_IVL_MAX, _RECONNECT_MS[1])
        sock.connect(self._endpoint)
        return sock

    def _talk(self, sock: zmq.Socket[bytes]) -> None:
        poller = zmq.Poller()
        poller.register(sock, zmq.POLLIN)
        poller.register(self._waker.fd, zmq.POLLIN)
        while self._stop_reason is None:
            self._take_news(sock)
            now = time.monotonic()
            closed = "" if self._hours is None else self._hours.closed(datetime.now(UTC))
            end_leases = self._end_at_close and bool(closed)
            self._obey(sock, self._core.at_hours(closed or self._unreachable(), end_leases, now))
            self._obey(sock, self._core.tick(now))
            wait_s = self._core.next_tick() - now
            if self._core.is_ending:
                wait_s = min(wait_s, _REPORT_POLL_S)
            poller.poll(poll_ms(wait_s))
            self._waker.clear()
            self._receive(sock)
        self._obey(sock, self._core.stop(self._stop_reason))

    def _take_news(self, sock: zmq.Socket[bytes]) -> None:
        """Hear of sessions, checks and doubts before anything else is decided."""
        now = time.monotonic()
        while (report := self._leases.next_report(0)) is not None:
            self._obey(sock, self._core.session(report, now))
        with contextlib.suppress(Empty):
            while True:
                slot, health = self._checked.get_nowait()
                self._checking.discard(slot)
                self._obey(sock, self._core.check_done(slot, health, now))
        with contextlib.suppress(Empty):
            while True:
                self._obey(sock, self._core.suspect(*self._suspects.get_nowait()))

    def _receive(self, sock: zmq.Socket[bytes]) -> None:
        for _ in range(_BURST):
            if (frames := receive_message(sock)) is None:
                return
            try:
                message = to_box.decode(frames).body
            except TunefarmError as error:
                logger.warning("the tracker sent something unexpected: %s", error.message)
                continue
            self._take_news(sock)
            self._obey(sock, self._core.handle(message, time.monotonic()))

    def _obey(self, sock: zmq.Socket[bytes], actions: list[Action]) -> None:
        for action in actions:
            match action:
                case SendToTracker(message):
                    try:
                        send_frames(sock, to_tracker.encode(message, MessageKind.NOTE))
                    except zmq.Again:
                        self._core.cut_off(time.monotonic())
                case Allow(lease, token, expires, holder):
                    self._leases.grant(lease, token, expires, holder)
                case Forbid(lease, reason):
                    self._leases.revoke(lease, reason)
                case RunCheck(slot, baseline):
                    self._run_check(slot, baseline)
                case Note(level, text):
                    logger.log(level, "%s", text)
                case _:
                    assert_never(action)

    def _run_check(self, slot: int, baseline: Scores | None) -> None:
        if slot not in self._checking:
            self._checking.add(slot)
            thread = threading.Thread(target=self._check_slot, args=(slot, baseline), name=f"check-{slot}", daemon=True)
            thread.start()

    def _check_slot(self, slot: int, baseline: Scores | None) -> None:
        self._checked.put((slot, self._health_of(slot, baseline)))
        self.wake()

    def _health_of(self, slot: int, baseline: Scores | None) -> Health:
        if self._check is None:
            return Health(True, "no health check is set up; the box answers")
        try:
            return self._check(slot, baseline)
        except Exception as error:
            logger.exception("the health check of slot %d failed", slot)
            return Health(False, f"{type(error).__name__}: {error}")
