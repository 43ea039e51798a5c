"""Tasks and devices as the record store takes them."""

from __future__ import annotations

from tuner.devices.fleet import NamedDevice
from tuner.records.model import NewDevice, NewWorkload
from tuner.task import TuningTask


def workload_row(task: TuningTask) -> NewWorkload:
    """The workload of a task."""
    return NewWorkload(
        key=task.key,
        name=task.name,
        spec=task.spec.to_json() if task.spec else None,
        function=task.func.script(),
        flops=task.flops,
    )


def device_row(device: NamedDevice) -> NewDevice:
    """A device by its name and what it is."""
    fingerprint = device.fingerprint
    return NewDevice(
        name=device.name,
        key=device.key,
        device_class=fingerprint.device_class,
        fingerprint=fingerprint.to_builtins(),
        features=tuple(fingerprint.features),
    )
