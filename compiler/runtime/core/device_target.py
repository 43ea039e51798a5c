"""The target of a device of this machine: what `Target.from_device` asks once this module is imported."""

from __future__ import annotations

from compiler.errors import TargetError
from compiler.runtime.core.device import Device, device
from compiler.target.gpu_arch import arch_of_version
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
    match found.device_type:
        case "cpu":
            return Target.host()
        case "cuda":
            return _cuda(found)
    raise TargetError(f"a {found.device_type} device does not tell its target", hint="write the target out")


def _cuda(dev: Device) -> Target:
    version = str(dev.compute_version or "")
    if not version:
        raise TargetError(f"{dev} does not tell its compute capability", hint='name it: Target("cuda -arch=sm_80")')
    data = {"kind": "cuda", "arch": arch_of_version(version)}
    limits = {
        "max_threads_per_block": dev.max_threads_per_block,
        "max_shared_memory_per_block": dev.max_shared_memory_per_block,
        "thread_warp_size": dev.warp_size,
    }
    return Target({**data, **{name: value for name, value in limits.items() if value}}, host=Target.host())


read_devices_with(target_of)
