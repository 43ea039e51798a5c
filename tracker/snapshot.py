"""What the tracker shows of itself."""

from __future__ import annotations

from collections import Counter
from heapq import nsmallest

from rpc_server.wire.tracker_messages import DevicePage, FarmNumbers, QueuePage
from rpc_server.wire.tracker_records import CheckInfo, DeviceInfo, QueueInfo, QueueNumbers
from tracker.farm import Device, DeviceState, Farm

_MOST_QUEUES = 400
"""So that the answer fits in a message."""


def device_page(farm: Farm, after: str, limit: int, now: float) -> DevicePage:
    ids = nsmallest(limit + 1, (device for device in farm.devices if device > after))
    infos = tuple(device_info(farm.devices[device], now) for device in ids[:limit])
    return DevicePage(infos, len(ids) > limit)


def device_info(device: Device, now: float) -> DeviceInfo:
    box, spec, lease = device.box, device.spec, device.lease
    held = now - lease.since if lease else 0.0
    reason = device.reason if device.standing != "ok" else ""
    if box.gone:
        reason = "its box is gone"
    elif box.late and device.standing == "ok":
        reason = "its box sends no heartbeats"
    elif box.closed and device.standing == "ok" and lease is None:
        reason = box.closed
    return DeviceInfo(
        id=device.id,
        box=box.name,
        slot=spec.slot,
        key=spec.key,
        tags=spec.tags,
        address=box.address,
        state=device.state,
        reason=reason,
        fingerprint=spec.fingerprint,
        attributes=spec.attributes,
        user=lease.user if lease else None,
        lease=lease.id if lease else None,
        held_s=held,
        leases=device.leases,
        busy_s=device.busy_s + held,
        known_s=now - device.since,
        seen_s=now - box.seen,
        check=_check_info(device, now),
    )


def _check_info(device: Device, now: float) -> CheckInfo | None:
    last = device.checked
    if last is None:
        return None
    return CheckInfo(
        passed=last.passed,
        text=last.text,
        age_s=now - last.at,
        failures=device.failures,
        scores=last.scores,
        baseline=device.baseline,
    )


def queue_page(farm: Farm) -> QueuePage:
    pending = Counter(str(waiting.predicate) for waiting in farm.allocator.waiting())
    devices: Counter[str] = Counter()
    free: Counter[str] = Counter()
    for device in farm.devices.values():
        if not device.box.gone:
            devices[device.spec.key] += 1
            free[device.spec.key] += device.state is DeviceState.READY
    names = sorted({*devices, *pending})
    return QueuePage(
        tuple(QueueInfo(key=name, free=free[name], pending=pending[name], devices=devices[name]) for name in names)
    )


def numbers(farm: Farm, now: float) -> FarmNumbers:
    """What was counted since the start."""
    waiting: dict[str, tuple[int, float]] = {}
    for asked in farm.allocator.waiting():
        count, since = waiting.get(str(asked.predicate), (0, now))
        waiting[str(asked.predicate)] = (count + 1, min(since, asked.since))
    queues = []
    for expr in sorted({*waiting, *farm.granted})[:_MOST_QUEUES]:
        count, since = waiting.get(expr, (0, now))
        granted, seconds = farm.granted.get(expr, (0, 0.0))
        queues.append(QueueNumbers(expr=expr, waiting=count, oldest_s=now - since, granted=granted, waited_s=seconds))
    return FarmNumbers(
        now - (farm.started if farm.started is not None else now),
        len(farm.leases),
        len(farm.requests),
        len(farm.clients),
        {str(kind): count for kind, count in farm.counts.items()},
        tuple(queues),
    )
