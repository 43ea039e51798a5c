"""The fleet that --device, --key and --tracker ask for, and the target that --target does."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import click

from compiler.driver.backend import backend_of
from compiler.target.target import Target
from rpc_server.wire.keys import KeyRing
from tracker.capability import parse_capability
from tunefarm.cli.common import address
from tunefarm.settings import Settings
from tuner.devices.fleet import Fleet
from tuner.devices.supplies import DirectFleet, TrackerFleet


def given_target(text: str) -> Target:
    """A target a person typed. Raises TargetError, also for a CPU that LLVM does not know."""
    target = Target(text)
    return backend_of(target).checked(target)


def _leases() -> dict[tuple[str, int], tuple[str, str]]:
    """The lease that `tunefarm lease` holds for this command, if it runs under one."""
    device, token = os.environ.get("TUNEFARM_DEVICE"), os.environ.get("TUNEFARM_LEASE_TOKEN")
    if not device or not token:
        return {}
    return {address(device, "TUNEFARM_DEVICE"): (token, os.environ.get("TUNEFARM_DEVICE_KEY", ""))}


def fleet_maker(
    settings: Settings, devices: Sequence[str], key: str | None, tracker: str | None, priority: int = 1
) -> Callable[[str], Fleet] | None:
    """Return what connects to the devices asked for; None when none are.

    Bad flags are refused here, before anything starts. The result takes a device class to keep to, or "". A higher
    `priority` goes first at the tracker. Raises click.UsageError, CapabilityError.
    """
    keys = KeyRing(settings.keys_folder)
    if devices:
        if key or tracker:
            raise click.UsageError("--device names servers, --key and --tracker ask a tracker: give one or the other")
        addresses = [address(d, "--device") for d in devices]
        return lambda device_class: DirectFleet(addresses, device_class, keys, _leases())
    if key or tracker:
        host, port = address(tracker or settings.tracker, "--tracker")
        parse_capability(key or "*")
        return lambda device_class: TrackerFleet(host, port, key or "", device_class, keys, priority)
    return None
