"""The check of a build on a device: open one, run a kernel, compare it with another one, and time it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

from compiler.artifact import Artifact
from compiler.target.target import Target
from rpc_server.wire.trial_messages import EvaluatorOptions, MeasureRequest, MeasureResult
from tunefarm.cli.tuning.fleet import fleet_maker
from tunefarm.settings import Settings
from tuner.devices.fleet import DeviceSession, Fleet
from tuner.devices.supplies import LocalFleet, local_target
from tuner.untuned import device_type

_WAIT_S = 30.0
_CHECK = EvaluatorOptions(number=1, repeat=5, min_repeat_ms=20)


def asked_fleet(settings: Settings, given: Mapping[str, Any]) -> Callable[[str], Fleet] | None:
    """Return what connects to the device that a build is checked on; None where it is not checked.

    Bad flags are refused here, before anything starts. Raises as `fleet_maker` does.
    """
    devices = [given["device"]] if given["device"] else []
    found = fleet_maker(settings, devices, given["key"], given["tracker"])
    return LocalFleet if found is None and given["check"] else found


@contextmanager
def opened(
    make_fleet: Callable[[str], Fleet] | None, target: Target | None
) -> Iterator[tuple[Target, DeviceSession | None]]:
    """The target to build for, by default the device's, and a session on the device, if there is one."""
    if make_fleet is None:
        yield target or Target(local_target()), None
        return
    with closing(make_fleet("")) as fleet:
        target = target or Target(fleet.target())
        with closing(fleet.open(0, wait_s=_WAIT_S)) as session:
            yield target, session


def class_of(session: DeviceSession | None, given: Mapping[str, Any]) -> str | None:
    """The device class that configs must be for: the one asked for, or the device's."""
    return given["device_class"] or (session.device().fingerprint.device_class if session else None)


def checked(session: DeviceSession, artifact: Artifact, reference: Artifact) -> MeasureResult:
    """Run a kernel on data from a seed, compare with what the reference gives, and time it."""
    request = MeasureRequest(
        artifact=artifact.digest,
        reference=reference.digest,
        options=_CHECK,
        timeout_s=60.0,
        device_type=device_type(artifact),
    )
    return session.measure(request, (artifact, reference))
