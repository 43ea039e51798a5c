"""Devices, their classes, and what happened to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from tuner.records.db.base import StorePart, page_size
from tuner.records.farm import device_events, devices
from tuner.records.farm.model_farm import BenchResult, DeviceEvent, DeviceEventKind
from tuner.records.model import DeviceRecord, NewDevice, Trial
from tuner.records.runs import catalog


class DeviceRecords(StorePart):
    """Part of `RecordStore`, whose promises hold for each method."""

    def upsert(self, new: NewDevice) -> DeviceRecord:
        """The device by name and fingerprint, made if it is new, else seen now.

        A device whose fingerprint changed is another device. Its earlier times stay with the old one.
        """
        return self._write(lambda c: catalog.upsert_device(c, new))

    def page(self, after: int = 0, limit: int = 100) -> tuple[DeviceRecord, ...]:
        """Devices with an id above `after`, by id."""
        return self._read(lambda c: catalog.devices(c, after, page_size(limit)))

    def named(self, name: str) -> tuple[DeviceRecord, ...]:
        """A device under each of its fingerprints, the one seen last at the end."""
        return self._read(lambda c: catalog.devices_named(c, name))

    def get(self, device_id: int) -> DeviceRecord:
        """One device. Raises RecordNotFound."""
        return self._read(lambda c: catalog.find_device(c, device_id))

    def classes(self, limit: int = 100) -> tuple[str, ...]:
        """The device classes seen, in that order."""
        return self._read(lambda c: catalog.device_classes(c, page_size(limit)))

    def declare_compatible(self, device_class: str, serves_from: Sequence[str]) -> None:
        """Declare that devices of `device_class` may be given configs of the classes `serves_from`.
        It replaces the earlier declaration. Raises RecordNotFound for a class no device of which was ever seen."""
        self._write(lambda c: catalog.declare_compatible(c, device_class, serves_from))

    def record_event(
        self, device_id: int, kind: DeviceEventKind, message: str = "", *, at: datetime | None = None,
        data: Mapping[str, Any] | None = None,
    ) -> DeviceEvent:  # fmt: skip
        """Write down what happened to a device, as of `at` (default: now).

        A failed check makes what the device measured since its last passed one suspect. No election counts such a
        trial and no search starts from it until the device is CLEARED. Best configs follow in the same
        transaction. Raises RecordNotFound.
        """
        return self._write(lambda c: device_events.record(c, device_id, kind, message, at, data or {}))

    def events(self, device: str, limit: int = 100) -> tuple[DeviceEvent, ...]:
        """Return what happened to a device, by name, latest first."""
        return self._read(lambda c: device_events.of_device(c, device, page_size(limit)))

    def newest_events(self, limit: int = 50, before: int | None = None) -> tuple[DeviceEvent, ...]:
        """Return what happened in the fleet, latest first; with `before`, events older than that id."""
        return self._read(lambda c: device_events.newest(c, before, page_size(limit)))

    def rename_box(self, old: str, new: str, *, by: str = "") -> tuple[str, ...]:
        """Give a box's devices another name, and return those they have now.

        All that was measured goes on under it. Raises RecordNotFound, InvalidRecord for a name that another box has
        had.
        """
        return self._write(lambda c: devices.rename(c, old, new, by))

    def remove_box(self, box: str, reason: str = "", *, by: str = "") -> tuple[str, ...]:
        """Write down that a box has left the farm, and return its devices; their records stay. Raises
        RecordNotFound."""
        return self._write(lambda c: devices.remove(c, box, by, reason))

    def trials(self, device: str, limit: int = 50) -> tuple[Trial, ...]:
        """The last trials that a device measured, by name, latest first, without traces."""
        return self._read(lambda c: devices.trials(c, device, page_size(limit)))

    def benchmarks(self, device: str) -> tuple[BenchResult, ...]:
        """The last benchmark result of each kernel on a device."""
        return self._read(lambda c: devices.benchmarks(c, device))
