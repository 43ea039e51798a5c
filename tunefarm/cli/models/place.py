"""Where a model runs: on this machine, or on a box that a session is open to."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compiler.errors import TunefarmError
from compiler.runtime.measure import conditions
from rpc_server.machine.fingerprint import local_fingerprint
from tunefarm.cli.common import address
from tunefarm.cli.tuning.fleet import fleet_maker, given_target
from tunefarm.settings import Settings
from tuner.devices.fleet import NamedDevice
from tuner.devices.private_server import CPU_KEY

if TYPE_CHECKING:
    from compiler.runtime.core.device import Device
    from compiler.runtime.measure.report import Report
    from compiler.runtime.vm.machine import VirtualMachine
    from rpc_server.client.session import RPCSession
    from tunefarm.cli.models.inputs import AnyArray

OUTPUTS = "outputs"
"""The fact of a built model that names its results, as JSON."""
ENTRY = "main"


@dataclass(frozen=True)
class ModelPlace:
    """A target to build for, and the session on a box; None on this machine."""

    target: Any
    session: RPCSession | None

    def device(self) -> NamedDevice:
        """Return what it is, as records know it."""
        if self.session is None:
            return NamedDevice(f"{socket.gethostname()}/local", CPU_KEY, local_fingerprint())
        return NamedDevice(self.session.box, self.session.status().key or CPU_KEY, self.session.fingerprint())

    def begin(self) -> str:
        """Begin to measure power and clock, for `drawn`. "" for a box without counters."""
        if self.session is None:
            return str(conditions.begin())
        try:
            return str(self.session.get_function(conditions.BEGIN)())
        except TunefarmError:
            return ""

    def drawn(self, before: str) -> tuple[dict[str, float], str]:
        """Mean power and clock since `begin`, as far as they are known, and why energy is not."""
        if not before:
            return {}, "the box is of a release that does not tell it"
        if self.session is None:
            text = conditions.end(before)
        else:
            try:
                text = str(self.session.get_function(conditions.END)(before))
            except TunefarmError as error:
                return {}, error.message
        found = json.loads(text)
        return {name: float(found[name]) for name in ("watts", "clock_mhz") if name in found}, str(found["why_not"])

    def machine(self, path: Path) -> tuple[VirtualMachine, Device]:
        """Return what runs a model's file there, and the device."""
        import tunefarm as tvm
        from compiler.target.target import Target
        from tunefarm import relax

        kind = "cpu" if Target(self.target).is_cpu else Target(self.target).kind.name
        if self.session is None:
            device = tvm.device(kind, 0)
            return relax.VirtualMachine(tvm.runtime.load_module(str(path)), device), device
        self.session.upload(path)
        remote = self.session.device(kind)
        return relax.VirtualMachine(self.session.load_module(path.name), remote), remote


@contextmanager
def open_place(settings: Settings, given: Mapping[str, Any]) -> Iterator[ModelPlace]:
    """Where to run, for as long as the block takes."""
    from tuner.devices.supplies import local_target

    devices = [given["device"]] if given["device"] else []
    open_fleet = fleet_maker(settings, devices, given["key"], given["tracker"])
    target = given_target(given["target"]) if given["target"] else None
    if open_fleet is None:
        yield ModelPlace(target or local_target(), None)
        return
    fleet = open_fleet("")
    try:
        chosen: Any = target or fleet.target()
    finally:
        fleet.close()
    with _session(settings, given) as session:
        yield ModelPlace(chosen, session)


@contextmanager
def _session(settings: Settings, given: Mapping[str, Any]) -> Iterator[RPCSession]:
    from rpc_server.client.connect import open_session
    from rpc_server.wire.keys import KeyRing
    from tracker.client import connect_tracker

    keys = KeyRing(settings.keys_folder)
    if given["device"]:
        host, port = address(given["device"], "--device")
        with open_session(host, port, keys=keys) as session:
            yield session
        return
    host, port = address(given["tracker"] or settings.tracker, "--tracker")
    with connect_tracker(host, port, keys=keys) as tracker, tracker.request(given["key"] or "*") as session:
        yield session


def run_once(machine: VirtualMachine, device: Device, arrays: Mapping[str, AnyArray]) -> list[AnyArray]:
    """Return what "main" gives, tuples laid out flat."""
    return [item.numpy() for item in _flat(results_of(machine, device, arrays))]


def results_of(machine: VirtualMachine, device: Device, arrays: Mapping[str, AnyArray]) -> Any:
    """Return the result of "main" unchanged: an array, or a tuple of arrays."""
    import tunefarm as tvm

    return machine[ENTRY](*(tvm.nd.array(value, device) for value in arrays.values()))


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, tuple | list):
        for item in value:
            yield from _flat(item)
    elif hasattr(value, "numpy"):
        yield value


def profiled(machine: VirtualMachine, device: Device, arrays: Mapping[str, AnyArray]) -> Report:
    """The times of the kernels of a run, beside what the machine could do."""
    import tunefarm as tvm

    return machine.profile(ENTRY, *(tvm.nd.array(value, device) for value in arrays.values()), peaks=True)
