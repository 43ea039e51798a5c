"""The three supplies of devices.

Servers by address, a tracker's devices, and a private server on this machine.

Times of different device classes do not compare, so the first device decides which class a fleet uses; a device
of another class is refused by name.
"""

from __future__ import annotations

import logging
import os
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType

from compiler.artifact import Artifact
from compiler.target.target import Target
from rpc_server.client.connect import box_status, open_session
from rpc_server.client.session import RPCSession
from rpc_server.errors import RPCError, ServerStartError
from rpc_server.machine.fingerprint import Fingerprint, local_fingerprint
from rpc_server.machine.user_name import user_at_host
from rpc_server.relay.passes import shown_address
from rpc_server.wire.keys import KeyRing
from rpc_server.wire.tracker_messages import Queued
from rpc_server.wire.tracker_records import DeviceInfo as TrackedDevice
from rpc_server.wire.trial_messages import MeasureRequest, MeasureResult
from tracker.capability import Capabilities, Predicate, parse_capability
from tracker.client import connect_tracker
from tracker.errors import NoDeviceError
from tracker.holdings import Lease
from tracker.turn import Turn
from tracker.wait_text import place_text
from tuner.devices.fleet import DeviceSession, NamedDevice
from tuner.devices.model_runs import ModelTimes, time_model
from tuner.devices.private_server import CPU_KEY, LOCALHOST, PrivateServer
from tuner.errors import NoDevicesError, TuningError

logger = logging.getLogger("tuner")

_CONNECT_S = 5.0
_MOST_STARTS = 5
_STARTS_WITHIN_S = 60.0
_POLL_S = 0.2
_OUT_OF_SERVICE = ("gone", "quarantined", "draining")  # a closed device opens again by itself


def usable(devices: Iterable[TrackedDevice], wanted: Predicate) -> list[TrackedDevice]:
    """Those of a tracker's devices that match, and that it lends, now or once their hours begin; by id."""
    matching = (
        d
        for d in devices
        if d.state not in _OUT_OF_SERVICE
        and wanted.admits(d.id)
        and wanted.matches(Capabilities.of(d.key, d.tags, d.attributes))
    )
    return sorted(matching, key=lambda device: device.id)


def tracked_target(device: TrackedDevice) -> str:
    """Return what to build for on a tracker's device; "" when it does not say."""
    target, threads = device.attributes.get("target"), device.attributes.get("threads")
    return device_target(target, threads) if isinstance(target, str) and isinstance(threads, int) else ""


class WrongDeviceError(TuningError, kind="wrong_device"):
    """A device of another class than the run's: its times would not compare."""


def device_target(target: str, threads: int) -> str:
    """Return the canonical target to build for on a device.
    It is its own, with as many cores as it has threads; or a GPU's."""
    if not Target(target).is_cpu:
        return str(Target(target))
    return str(Target({**Target(target).export(), "num-cores": threads}))


def local_target() -> str:
    """`device_target` of this machine, as a server started by this process would report it."""
    fingerprint = local_fingerprint()
    return device_target(fingerprint.target, fingerprint.threads)


class _Session:
    """A device session over RPC.
    `release` gets the device's fault, or "". `is_wanted` says whether others should have a turn with the device."""

    def __init__(
        self, rpc: RPCSession, name: str, key: str, release: Callable[[str], None] = lambda _fault: None,
        is_wanted: Callable[[], bool] = lambda: False,
    ) -> None:  # fmt: skip
        self._rpc = rpc
        self.is_wanted = is_wanted
        self._release = release
        self._fault = ""
        self._device = NamedDevice(name, key, rpc.fingerprint())

    def device(self) -> NamedDevice:
        return self._device

    def measure(self, request: MeasureRequest, artifacts: Sequence[Artifact]) -> MeasureResult:
        try:
            return self._rpc.measure(request, artifacts)
        except RPCError as error:
            self._fault = error.message
            raise

    def run_model(self, path: Path, device_type: str, repeat: int, min_repeat_ms: int) -> ModelTimes:
        try:
            return time_model(self._rpc, path, device_type, repeat, min_repeat_ms)
        except RPCError as error:
            self._fault = error.message
            raise

    def close(self) -> None:
        try:
            self._rpc.close()
        finally:
            self._release(self._fault)


class _OneClass:
    """The device class of a fleet: one that is given, else its first device's. Safe in any thread."""

    def __init__(self, name: str = "") -> None:
        self._lock = threading.Lock()
        self.name = name

    def admit(self, device: str, device_class: str) -> None:
        """Raise WrongDeviceError for a device of another class."""
        with self._lock:
            self.name = self.name or device_class
        if device_class != self.name:
            raise WrongDeviceError(
                f"{device} is a {device_class}; this run measures on {self.name}, whose times would not compare",
                hint="name devices of one class, or tune each class in a run of its own",
            )


class DirectFleet:
    """Servers at known addresses, (host, port) each, one session to a server.
    `device_class`: use no other. `leases` gives the token, and the server's key or "", of an address that this
    process holds a lease of."""

    def __init__(
        self,
        addresses: Sequence[tuple[str, int]],
        device_class: str = "",
        keys: KeyRing | None = None,
        leases: Mapping[tuple[str, int], tuple[str, str]] = MappingProxyType({}),
    ) -> None:
        if not addresses:
            raise TuningError("a fleet needs at least one server", hint="name one: --device 127.0.0.1:9091")
        self._addresses = tuple(dict.fromkeys(addresses))
        self._keys = keys
        self._leases = leases
        self._class = _OneClass(device_class)

    def label(self) -> str:
        return " or ".join(shown_address(host, port) for host, port in self._addresses)

    def target(self) -> str:
        """Return the target to build for, as the first server that answers reports it.
        Raises ConnectError when none does."""
        for host, port in self._addresses[:-1]:
            try:
                return self._ask(host, port)
            except RPCError:  # perhaps another one is up; the last one's error is raised
                continue
        return self._ask(*self._addresses[-1])

    def _ask(self, host: str, port: int) -> str:
        _, server_key = self._leases.get((host, port), ("", ""))
        status = box_status(host, port, _CONNECT_S, self._keys, server_key)
        fingerprint = Fingerprint.from_builtins(status.fingerprint)
        self._class.admit(shown_address(host, port), fingerprint.device_class)
        return device_target(fingerprint.target, fingerprint.threads)

    def count(self) -> int:
        return len(self._addresses)

    def open(self, slot: int, wait_s: float) -> DeviceSession:
        host, port = self._addresses[slot % len(self._addresses)]
        token, server_key = self._leases.get((host, port), ("", ""))
        rpc = open_session(
            host, port, token=token, wait_s=wait_s, connect_timeout=_CONNECT_S, restart_on_crash=True, keys=self._keys,
            server_key=server_key,
        )  # fmt: skip
        try:
            session = _Session(rpc, rpc.box, rpc.status().key or CPU_KEY)
            self._class.admit(rpc.box, session.device().fingerprint.device_class)
        except BaseException:
            rpc.close()
            raise
        return session

    def close(self) -> None:
        pass


class LocalFleet(DirectFleet):
    """This machine's CPU, or the GPU named, behind a private server on loopback.
    The server ends with the fleet or this process."""

    def __init__(self, device_class: str = "", gpu: str = "", server: PrivateServer | None = None) -> None:
        """`server`: one that is starting already. Raises ServerStartError."""
        self._gpu = gpu
        self._server = server or PrivateServer(gpu)
        self._starting = threading.Lock()
        self._starts: deque[float] = deque(maxlen=_MOST_STARTS)
        self._closed = False
        super().__init__([(LOCALHOST, self._server.port)], device_class)

    def label(self) -> str:
        return "the private server on this machine"

    def open(self, slot: int, wait_s: float) -> DeviceSession:
        self._keep_running()
        return super().open(slot, wait_s)

    def _keep_running(self) -> None:
        """Start the server again if it was killed.
        Raises ServerStartError when it does not come up, or when it has been started so often that it would end
        again."""
        with self._starting:
            if self._closed or self._server.is_alive:
                return
            now = time.monotonic()
            if len(self._starts) == _MOST_STARTS and now - self._starts[0] < _STARTS_WITHIN_S:
                raise ServerStartError(
                    f"the private server on this machine has died {_MOST_STARTS} times within {_STARTS_WITHIN_S:g} s",
                    hint="`tunefarm server --port 9091` shows why; is this machine out of memory?",
                )
            self._starts.append(now)
            logger.warning("the private server on this machine has died; it is started again")
            self._server.terminate()
            self._server = PrivateServer(self._gpu)
            self._addresses = ((LOCALHOST, self._server.port),)

    def close(self) -> None:
        with self._starting:
            self._closed = True
            self._server.terminate()


class TrackerFleet:
    """Devices that a tracker lends for a key or capability expression; "" stands for any device.

    Devices that come later are used, one that is lost goes back with what was wrong. `device_class`: use no other. A
    slot that waits keeps its place in the tracker's queue, however often it asks (see `Queueing`).
    Of those who wait, a higher `priority` is served first. Raises ConnectError when no tracker answers,
    CapabilityError for an expression that does not parse.
    """

    def __init__(
        self, host: str, port: int, key: str = "", device_class: str = "", keys: KeyRing | None = None,
        priority: int = 1,
    ) -> None:  # fmt: skip
        self._priority = priority
        self._expr = key.strip() or "*"
        self._wanted = parse_capability(self._expr)
        self._turns: dict[int, Turn] = {}  # by slot
        self._class = _OneClass(device_class)
        self._tracker = connect_tracker(host, port, user=_process_name(), keys=keys)

    def label(self) -> str:
        what = "any device" if self._expr == "*" else f"devices matching {self._expr!r}"
        return f"{what} of the tracker at {self._tracker.address}"

    def target(self, wait_s: float = 5.0) -> str:
        """Return the target to build for: the first device's, by id. Waits for one to register.

        Raises NoDevicesError when none has after `wait_s`.
        """
        deadline = time.monotonic() + wait_s
        while not (found := self._in_service()):
            if time.monotonic() > deadline:
                which = f" and is a {self._class.name}" if self._class.name else ""
                raise NoDevicesError(
                    f"the tracker at {self._tracker.address} has no device that matches {self._expr!r}{which}",
                    hint=f"start one: tunefarm server --tracker {self._tracker.address}; "
                    "`tunefarm devices` lists those there are",
                )
            time.sleep(_POLL_S)
        first = found[0]
        self._class.admit(first.id, first.fingerprint)
        if target := tracked_target(first):
            return target
        raise TuningError(f"{first.id} does not say what to build for", hint="name it: --target 'llvm -mcpu=...'")

    def count(self) -> int:
        return max(1, len(self._in_service()))

    def open(self, slot: int, wait_s: float) -> DeviceSession:
        turn = self._turns.get(slot)
        if turn is None:
            turn = self._turns[slot] = self._tracker.ask(self._request(), priority=self._priority, shares=True)
        try:
            lease = turn.wait(wait_s)
        except BaseException:
            self.leave(slot)
            raise
        if lease is None:
            place = turn.place
            raise NoDeviceError(
                f"{self.label()}: " + ("the tracker has not said when" if place is None else place_text(place)),
                hint="see who holds the devices with `tunefarm devices`",
            )
        del self._turns[slot]
        try:
            self._class.admit(lease.device, lease.fingerprint)
            return self._open(lease)
        except RPCError as error:
            lease.release(fault=f"no session could be opened: {error.message}"[:2000])
            raise
        except BaseException:
            lease.release()
            raise

    def waiting(self) -> str:
        place = self._foremost()
        return "" if place is None else place_text(place)

    def has_turn_coming(self) -> bool:
        place = self._foremost()
        return place is not None and place.devices > 0

    def _foremost(self) -> Queued | None:
        turns = list(self._turns.values())  # other threads change it
        places = [turn.place for turn in turns if turn.place is not None]
        return min(places, key=lambda place: (place.devices == 0, place.position), default=None)

    def leave(self, slot: int) -> None:
        if (turn := self._turns.pop(slot, None)) is not None:
            turn.give_up()

    def close(self) -> None:
        self._tracker.close()

    def _open(self, lease: Lease) -> DeviceSession:
        rpc = lease.open_session(connect_timeout=_CONNECT_S, restart_on_crash=True, client=self._tracker.user)
        try:
            give_back = partial(_give_back, lease)
            return _Session(rpc, lease.device, lease.key, give_back, lambda: lease.is_wanted)
        except BaseException:
            rpc.close()
            raise

    def _in_service(self) -> list[TrackedDevice]:
        """Registered devices that match and are of the run's class, once it has one, by id."""
        found = usable(self._tracker.devices(), self._wanted)
        return [device for device in found if self._class.name in ("", device.fingerprint)]

    def _request(self) -> str:
        """The expression to lease by.
        Once the class is known, it is narrowed to the class's attributes, so that the tracker offers no others."""
        if not self._class.name:
            return self._expr
        model = next((d for d in self._in_service()), None)
        if model is None:
            return self._expr
        terms = [self._expr]
        for name in ("arch", "threads", "cpu_model", "gpu"):
            value = str(model.attributes.get(name, ""))
            if re.fullmatch(r"[\w .@()+:/-]+", value):
                terms.append(f'{name}="{value}"')
        return " ".join(terms)


def _give_back(lease: Lease, fault: str) -> None:
    lease.release(fault[:2000])


def _process_name() -> str:
    """Whom leases are for, so that `tunefarm devices` shows which process holds a device."""
    return f"{user_at_host()}:{os.getpid()}"
