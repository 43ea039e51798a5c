"""The target of a device of this machine. Importing this module makes `Target.from_device` ask it."""

from __future__ import annotations

from compiler.errors import TargetError
from compiler.runtime.core.backends import DEVICE_BACKENDS
from compiler.runtime.core.device import Device, device
from compiler.target.target import Target, read_devices_with


def target_of(dev: Device | str) -> Target:
    """See `Target.from_device`."""
    found = device(dev) if isinstance(dev, str) else dev
    if not isinstance(found, Device):
        raise TargetError(f"{dev!r} is no device", hint='pass cpu(0), cuda(0) or "cpu"')
    if type(found) is not Device:  # behind a connection
        raise TargetError(f"{found} is on another machine", hint="the server tells its target when it is asked")
    if not found.exist:
        raise TargetError(f"{found} is not there, so it has no target")
    backend = DEVICE_BACKENDS.find_for_device(found.device_type)
    if backend is None:
        raise TargetError(f"a {found.device_type} device does not tell its target", hint="write the target out")
    return backend.target_of(found)


read_devices_with(target_of)
