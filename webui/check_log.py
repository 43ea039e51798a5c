"""Store the tracker's health checks, so that a failing device's earlier measurements are in doubt.

Only devices in the records have measured anything; the others need no record. Several web apps on one store may do
this at once. A check that is on record already, at the same moment within `SAME_S`, is not written again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from compiler.errors import TunefarmError
from rpc_server.wire.tracker_records import DeviceInfo
from tuner.records.db.types import utcnow
from tuner.records.farm.model_farm import DeviceEvent, DeviceEventKind
from tuner.records.model import DeviceRecord
from tuner.records.store import RecordStore
from webui.fleet import DeviceSource, newest_by_name

_log = logging.getLogger(__name__)

EVERY_S = 15.0
SAME_S = 5.0
_CHECKS = (DeviceEventKind.CHECK_PASSED, DeviceEventKind.CHECK_FAILED)
_STANDING = (DeviceEventKind.QUARANTINED, DeviceEventKind.RETURNED)


@dataclass(frozen=True)
class CheckChanges:
    """The events to record of a device."""

    kind: DeviceEventKind
    at: datetime
    message: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)


def news_of(info: DeviceInfo, events: Sequence[DeviceEvent], now: datetime) -> list[CheckChanges]:
    """Return what the tracker says of a device that is not among its `events`, latest first."""
    found = []
    last = next((event for event in events if event.kind in _CHECKS), None)
    if info.check is not None:
        at = now - timedelta(seconds=info.check.age_s)
        if last is None or (at - last.at).total_seconds() > SAME_S:
            scores = info.check.scores
            data = {} if scores is None else {"compute": scores.compute, "memory": scores.memory}
            kind = DeviceEventKind.CHECK_PASSED if info.check.passed else DeviceEventKind.CHECK_FAILED
            found.append(CheckChanges(kind, at, info.check.text, data))
    standing = next((event.kind for event in events if event.kind in _STANDING), DeviceEventKind.RETURNED)
    if info.state == "quarantined" and standing is DeviceEventKind.RETURNED:
        found.append(CheckChanges(DeviceEventKind.QUARANTINED, now, info.reason))
    elif info.state in ("ready", "leased") and standing is DeviceEventKind.QUARANTINED:
        found.append(CheckChanges(DeviceEventKind.RETURNED, now))
    return found


class CheckLog(threading.Thread):
    """Looks at the tracker every `every_s` seconds until `stop`.
    A tracker or store that is away is asked again."""

    def __init__(self, store: RecordStore, tracker: DeviceSource, every_s: float = EVERY_S) -> None:
        super().__init__(name="check-log", daemon=True)
        self._store = store
        self._tracker = tracker
        self._every_s = every_s
        self._stopping = threading.Event()
        self._seen: dict[str, tuple[object, ...]] = {}  # by device: what it was when last looked at

    def run(self) -> None:
        while not self._stopping.wait(self._every_s):
            try:
                self.look()
            except (TunefarmError, OSError) as error:
                _log.debug("health checks were not recorded: %s", error)

    def stop(self) -> None:
        self._stopping.set()
        self.join()

    def look(self) -> None:
        """Record what is new. Raises TunefarmError when tracker or store is away."""
        known: dict[str, DeviceRecord] | None = None
        now = utcnow()
        for info in self._tracker.devices():
            about = _about(info, now)
            if self._seen.get(info.id) == about:
                continue
            known = newest_by_name(self._store) if known is None else known
            if (device := known.get(info.id)) is not None:
                for news in news_of(info, self._store.devices.events(info.id, 20), now):
                    self._store.devices.record_event(device.id, news.kind, news.message, at=news.at, data=news.data)
                self._seen[info.id] = about


def _about(info: DeviceInfo, now: datetime) -> tuple[object, ...]:
    """Return a number that changes when something may have happened.
    It has a check's moment to within a few seconds."""
    check = info.check
    when = None if check is None else round((now.timestamp() - check.age_s) / (2 * SAME_S))
    return info.state, when, None if check is None else check.passed
