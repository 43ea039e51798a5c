"""Checks the tracker, the record store and disks, and reports what has begun or is over."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Sequence
from typing import Protocol

from compiler.errors import TunefarmError
from rpc_server.wire.tracker_messages import FarmNumbers
from rpc_server.wire.tracker_records import DeviceInfo
from tuner.alerts.conditions import Alert, AlertFacts, DeviceSeen, Slower, holding, news
from tuner.alerts.deliver import deliver
from tuner.alerts.rules import Delivery, Rules, When
from tuner.bench.changes import ChangeKind
from tuner.bench.history import lines_of
from tuner.records.store import RecordStore

_log = logging.getLogger("tunefarm.alerts")
_MOST_LATE = 1000  # alerts kept for a delivery that fails


class WatchedTracker(Protocol):
    """The interface of a tracker that alerts watch."""

    def devices(self) -> Sequence[DeviceInfo]: ...
    def numbers(self) -> FarmNumbers: ...


class Watch:
    """Checks when asked, and delivers what is new since the last check.
    A failed delivery is repeated at the next."""

    def __init__(self, rules: Rules, tracker: Callable[[], WatchedTracker], store: Callable[[], RecordStore]) -> None:
        self._rules = rules
        self._tracker = tracker
        self._store = store
        self._wanted = {rule.when for rule in rules.rules}
        self._told: dict[tuple[str, str], Alert] = {}
        self._late: dict[Delivery, list[Alert]] = {}

    def look(self) -> list[Alert]:
        """Look once; what was new."""
        now = holding(self._rules.rules, self._facts(), self._told.values())
        found = news(self._told, now)
        self._told = now
        for delivery in self._rules.deliveries:
            if waiting := [*self._late.pop(delivery, []), *found]:
                try:
                    deliver(delivery, waiting)
                except TunefarmError as error:
                    _log.error("%s", error.message)
                    self._late[delivery] = waiting[-_MOST_LATE:]
        return found

    def _facts(self) -> AlertFacts:
        devices: tuple[DeviceSeen, ...] | None = ()
        waits: dict[str, float] | None = {}
        if self._wanted & {When.BOX_GONE, When.QUEUE_WAIT}:
            try:
                tracker = self._tracker()
                devices = tuple(DeviceSeen(d.id, d.state, d.seen_s) for d in tracker.devices())
                waits = {q.expr: q.oldest_s for q in tracker.numbers().queues if q.waiting}
            except (TunefarmError, OSError) as error:
                _log.error("the tracker does not answer: %s", error)
                devices = waits = None
        paths = {rule.path for rule in self._rules.rules if rule.when is When.DISK_FULL}
        return AlertFacts(
            devices, self._slower(), waits, {path: free for path in paths if (free := _free(path)) is not None}
        )

    def _slower(self) -> tuple[Slower, ...] | None:
        """Kernels that became slower, by the newest benchmark run of each suite."""
        if When.KERNEL_SLOWER not in self._wanted:
            return ()
        try:
            store = self._store()
            newest = {run.suite: run for run in reversed(store.benches.newest(50)) if run.finished_at is not None}
            lines = [line for run in newest.values() for line in lines_of(store, run)]
        except TunefarmError as error:
            _log.error("the record store does not answer: %s", error.message)
            return None
        return tuple(
            Slower(line.result.kernel, line.result.device, line.judgement.ratio)
            for line in lines
            if line.change is ChangeKind.SLOWER and line.judgement is not None
        )


def _free(path: str) -> float | None:
    try:
        usage = shutil.disk_usage(path)
    except OSError as error:
        _log.error("the disk of %s cannot be looked at: %s", path, error.strerror)
        return None
    return usage.free / usage.total if usage.total else None
