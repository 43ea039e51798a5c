"""The fleet as the pages and the API show it: live from the tracker, or else from the records."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as WaitTimeout
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, Protocol

from compiler.errors import TunefarmError
from rpc_server.wire.tracker_messages import FarmNumbers
from rpc_server.wire.tracker_records import CheckInfo, DeviceInfo
from tracker.capability import Predicate
from tuner.devices.supplies import tracked_target, usable
from tuner.errors import NoDevicesError
from tuner.records.db.types import utcnow
from tuner.records.model import DeviceRecord
from tuner.records.paging import all_pages
from tuner.records.store import RecordStore

_log = logging.getLogger(__name__)

FRESH_S = 1.0
"""A tracker is asked at most this often, however many people look."""
PATIENCE_S = 1.5
"""How long a page waits for the tracker; the answer may be on the next one."""

_PAGE = 1000


class DeviceSource(Protocol):
    """A tracker, as far as the web app needs it (see `tracker.client`)."""

    def devices(self) -> Sequence[DeviceInfo]:
        """All devices now. Raises TunefarmError when the tracker is away."""

    def numbers(self) -> FarmNumbers:
        """Return what the tracker has counted. Raises TunefarmError when it is away."""


@dataclass(frozen=True)
class FleetDevice:
    """A device on a page.
    `state` is the tracker's, or "recorded" without one. `seen_at`: its last sign of life. `info`: all that the tracker
    says of it."""

    name: str
    key: str
    state: str
    reason: str
    box: str
    address: str
    device_class: str
    cpu: str
    cores: int | None
    user: str | None
    busy_share: float | None
    seen_at: datetime
    check: CheckInfo | None = None
    lease: str | None = None
    held_s: float = 0.0
    info: DeviceInfo | None = None


@dataclass(frozen=True)
class FleetView:
    """The devices of the fleet.
    `problem` says why there is no news from a tracker that should answer; devices are then from the records."""

    source: Literal["tracker", "records"]
    devices: tuple[FleetDevice, ...]
    problem: str
    as_of: datetime
    numbers: FarmNumbers | None = None

    @property
    def up(self) -> int:
        return sum(d.state in ("ready", "leased") for d in self.devices)


class FleetWatch:
    """Asks the tracker in the background, so that a slow or missing tracker never holds up a page."""

    def __init__(self, store: RecordStore, tracker: DeviceSource | None) -> None:
        self._store = store
        self._tracker = tracker
        self._lock = threading.Lock()
        self._asker = ThreadPoolExecutor(1, thread_name_prefix="fleet")
        self._asking: Future[FleetView] | None = None
        self._last: tuple[float, FleetView] | None = None

    @property
    def tracked(self) -> bool:
        return self._tracker is not None

    def close(self) -> None:
        self._asker.shutdown(wait=False, cancel_futures=True)

    def target_of(self, wanted: Predicate) -> str:
        """Return the target of the tracker's matching devices: the first one's. Raises NoDevicesError."""
        infos = [device.info for device in self.view().devices if device.info is not None]
        for info in usable(infos, wanted):
            if target := tracked_target(info):
                return target
        raise NoDevicesError(
            "no device of the tracker that matches reports a target to build for",
            hint="look at /api/v1/devices, or give the target",
        )

    def view(self) -> FleetView:
        """The fleet now, or as it was a moment ago. Waits at most `PATIENCE_S`."""
        if self._tracker is None:
            return self._recorded("")
        with self._lock:
            if self._last is not None and time.monotonic() - self._last[0] < FRESH_S:
                return self._last[1]
            if self._asking is None:
                self._asking = self._asker.submit(self._ask, self._tracker)
            asking = self._asking
        try:
            return asking.result(PATIENCE_S)
        except WaitTimeout:
            with self._lock:
                last = self._last
            problem = f"the tracker has not answered for {PATIENCE_S:g} s"
            if last is None:
                return self._recorded(problem)
            return FleetView(last[1].source, last[1].devices, problem, last[1].as_of, last[1].numbers)

    def _ask(self, tracker: DeviceSource) -> FleetView:
        try:
            view = self._tracked(tracker.devices(), tracker.numbers())
        except TunefarmError as error:
            view = self._recorded(error.message or error.kind)
        except OSError as error:
            _log.warning("asking the tracker failed", exc_info=True)
            view = self._recorded(f"asking the tracker failed: {error}")
        finally:
            with self._lock:
                self._asking = None
        with self._lock:
            self._last = (time.monotonic(), view)
        return view

    def _tracked(self, infos: Sequence[DeviceInfo], numbers: FarmNumbers) -> FleetView:
        now = utcnow()
        known = newest_by_name(self._store)
        devices = tuple(_from_tracker(info, known.get(info.id), now) for info in infos)
        return FleetView("tracker", devices, "", now, numbers)

    def _recorded(self, problem: str) -> FleetView:
        devices = tuple(recorded_device(device) for device in newest_by_name(self._store).values())
        return FleetView("records", devices, problem, utcnow())


def newest_by_name(store: RecordStore) -> dict[str, DeviceRecord]:
    """The newest fingerprint of each device on record, by name."""
    newest: dict[str, DeviceRecord] = {}
    for device in all_pages(lambda after: store.devices.page(after, _PAGE), 0):
        known = newest.get(device.name)
        if known is None or device.last_seen >= known.last_seen:
            newest[device.name] = device
    return newest


def _from_tracker(info: DeviceInfo, known: DeviceRecord | None, now: datetime) -> FleetDevice:
    words = {name: str(value) for name, value in info.attributes.items()}
    recorded = known.fingerprint if known is not None else {}
    cores = str(words.get("cores") or words.get("threads") or recorded.get("cores", ""))
    return FleetDevice(
        name=info.id, key=info.key, state=info.state, reason=info.reason, box=info.box, address=info.address,
        device_class=info.fingerprint or (known.device_class if known else ""),
        cpu=words.get("cpu_model") or words.get("cpu") or str(recorded.get("cpu_model", "")),
        cores=int(cores) if cores.isdigit() else None, user=info.user, busy_share=info.utilisation,
        seen_at=now - timedelta(seconds=info.seen_s), check=info.check, lease=info.lease, held_s=info.held_s, info=info,
    )  # fmt: skip


def recorded_device(device: DeviceRecord) -> FleetDevice:
    """A device as its record knows it."""
    cores = device.fingerprint.get("cores")
    return FleetDevice(
        name=device.name, key=device.key, state="recorded", reason="", box=str(device.fingerprint.get("hostname", "")),
        address="", device_class=device.device_class, cpu=str(device.fingerprint.get("cpu_model", "")),
        cores=cores if isinstance(cores, int) else None, user=None, busy_share=None, seen_at=device.last_seen,
    )  # fmt: skip
