"""The tracker's view of itself.

Much of it is what boxes and clients said. Answers keep to the bounds of their own messages all the same. Times are
cut to the longest there is, names to their length, and pages to what fits in a message.
"""

from __future__ import annotations

from collections import Counter
from heapq import nsmallest

from rpc_server.wire.codec import that_fit
from rpc_server.wire.tracker_messages import DevicePage, FarmNumbers, QueuePage
from rpc_server.wire.tracker_records import CheckInfo, DeviceInfo, QueueInfo, QueueNumbers
from tracker.farm import Farm
from tracker.farm_parts import DeviceState, FarmDevice

_MOST_QUEUES = 400
"""So that the answer fits in a message."""
_LONGEST_S = 1e9
_LONGEST_KEY, _LONGEST_EXPR = 200, 300


def _seconds(since: float, now: float) -> float:
    return min(max(0.0, now - since), _LONGEST_S)


def device_page(farm: Farm, after: str, limit: int, now: float) -> DevicePage:
    ids = nsmallest(limit + 1, (device for device in farm.devices if device > after))
    infos = that_fit(device_info(farm.devices[device], now) for device in ids[:limit])
    return DevicePage(infos, len(ids) > len(infos))


def device_info(device: FarmDevice, now: float) -> DeviceInfo:
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
        id=device.id, box=box.name, slot=spec.slot, key=spec.key, tags=spec.tags, address=box.address,
        state=device.state, reason=reason, fingerprint=spec.fingerprint, attributes=spec.attributes,
        user=lease.user if lease else None, lease=lease.id if lease else None, held_s=held, leases=device.leases,
        busy_s=device.busy_s + held, known_s=now - device.since, seen_s=now - box.seen, check=_check_info(device, now),
    )  # fmt: skip


def _check_info(device: FarmDevice, now: float) -> CheckInfo | None:
    last = device.checked
    if last is None:
        return None
    return CheckInfo(
        passed=last.passed,
        text=last.text,
        age_s=_seconds(last.at, now),
        failures=device.failures,
        scores=last.scores,
        baseline=device.baseline,
    )


def queue_page(farm: Farm) -> QueuePage:
    pending = Counter(str(waiting.predicate)[:_LONGEST_KEY] for waiting in farm.allocator.waiting())
    devices: Counter[str] = Counter()
    free: Counter[str] = Counter()
    for device in farm.devices.values():
        if not device.box.gone:
            devices[device.spec.key] += 1
            free[device.spec.key] += device.state is DeviceState.READY
    most_asked = sorted(pending, key=lambda name: -pending[name])
    names = sorted(list(dict.fromkeys((*devices, *most_asked)))[:_MOST_QUEUES])
    return QueuePage(
        tuple(QueueInfo(key=name, free=free[name], pending=pending[name], devices=devices[name]) for name in names)
    )


def numbers(farm: Farm, now: float) -> FarmNumbers:
    """Return what was counted since the start."""
    waiting: dict[str, tuple[int, float]] = {}
    for asked in farm.allocator.waiting():
        count, since = waiting.get(str(asked.predicate), (0, now))
        waiting[str(asked.predicate)] = (count + 1, min(since, asked.since))
    queues = []
    for expr in sorted({*waiting, *farm.granted})[:_MOST_QUEUES]:
        count, since = waiting.get(expr, (0, now))
        granted, seconds = farm.granted.get(expr, (0, 0.0))
        shown = expr[:_LONGEST_EXPR]
        queues.append(QueueNumbers(expr=shown, waiting=count, oldest_s=now - since, granted=granted, waited_s=seconds))
    return FarmNumbers(
        now - (farm.started if farm.started is not None else now),
        len(farm.leases),
        len(farm.requests),
        len(farm.clients),
        {str(kind): count for kind, count in farm.counts.items()},
        tuple(queues),
    )
