"""The devices of a benchmark run: each one exactly once, held one at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from functools import partial

from rpc_server.wire.keys import KeyRing
from tracker.capability import parse_capability
from tracker.client import connect_tracker
from tuner.devices.fleet import DeviceSession, Fleet
from tuner.devices.supplies import DirectFleet, LocalFleet, TrackerFleet, usable
from tuner.errors import NoDevicesError


@dataclass(frozen=True)
class BenchDevice:
    """A device that can be benchmarked.
    `hold(wait_s)` is a context manager that holds it alone. `flags` are the command line's that name it."""

    name: str
    hold: Callable[[float], AbstractContextManager[DeviceSession]]
    flags: tuple[str, ...] = ()


def tracked_devices(host: str, port: int, expression: str, keys: KeyRing | None = None) -> list[BenchDevice]:
    """Every device of a tracker that matches and is in service now, by id.

    Raises ConnectError, CapabilityError, NoDevicesError.
    """
    wanted = parse_capability(expression or "*")
    with connect_tracker(host, port, keys=keys) as tracker:
        found = [device.id for device in usable(tracker.devices(), wanted) if device.state != "closed"]
    if not found:
        raise NoDevicesError(
            f"the tracker at {host}:{port} has no device in service that matches {expression or '*'!r}",
            hint="`tunefarm devices` lists those there are",
        )
    tracker_flags = ("--tracker", f"{host}:{port}")
    keys_of = {name: f'device="{name}"' for name in found}
    return [
        BenchDevice(name, _holder(partial(TrackerFleet, host, port, key, keys=keys)), (*tracker_flags, "--key", key))
        for name, key in keys_of.items()
    ]


def direct_devices(addresses: list[tuple[str, int]], keys: KeyRing | None = None) -> list[BenchDevice]:
    """Servers by address."""
    names = {f"{host}:{port}": (host, port) for host, port in addresses}
    return [
        BenchDevice(name, _holder(partial(DirectFleet, [address], keys=keys)), ("--device", name))
        for name, address in names.items()
    ]


def local_device() -> BenchDevice:
    """This machine, behind a private server that ends with the hold."""
    return BenchDevice("this machine", _holder(LocalFleet))


def _holder(make: Callable[[], Fleet]) -> Callable[[float], AbstractContextManager[DeviceSession]]:
    @contextmanager
    def hold(wait_s: float) -> Iterator[DeviceSession]:
        with closing(make()) as fleet, closing(fleet.open(0, wait_s)) as session:
            yield session

    return hold
