"""The farm as TVM's summaries show it.

Devices and waiting requests come in two answers, and a box may register or leave between them. So all counts of
devices are of the devices listed, and the queue only says who waits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from rpc_server.farm_link.registrar import split_address
from rpc_server.wire.tracker_records import DeviceInfo, QueueInfo


def summary(devices: Sequence[DeviceInfo], queues: Sequence[QueueInfo]) -> dict[str, Any]:
    """TVM's shape: `server_info` lists boxes, `queue_info[key]` has `free` and `pending` counts."""
    boxes: dict[tuple[str, str], dict[str, Any]] = {}
    for device in _present(devices):
        box = boxes.setdefault(
            (device.box, device.key),
            {"key": f"server:{device.key}", "addr": split_address(device.address), "devices": {}},
        )
        box["devices"][device.id] = device.state
    rows = _queue_rows(devices, queues)
    return {
        "server_info": list(boxes.values()),
        "queue_info": {key: {"free": free, "pending": pending} for key, _, free, pending in rows},
    }


def text_summary(devices: Sequence[DeviceInfo], queues: Sequence[QueueInfo]) -> str:
    """Two small tables: devices with who uses them, and each key's devices and requests."""
    listed = [(d.id, d.key, d.address, d.state, d.user or "", f"{100 * d.utilisation:.0f}%") for d in devices]
    counted = [(key, str(total), str(free), str(pending)) for key, total, free, pending in _queue_rows(devices, queues)]
    servers = _table(("device", "key", "address", "state", "user", "used"), listed)
    return f"Server List\n{servers}\n\nQueue Status\n{_table(('key', 'total', 'free', 'pending'), counted)}"


def _queue_rows(devices: Sequence[DeviceInfo], queues: Sequence[QueueInfo]) -> list[tuple[str, int, int, int]]:
    """Key, devices, free devices and pending requests, by key."""
    total = Counter(device.key for device in _present(devices))
    free = Counter(device.key for device in devices if device.state == "ready")
    pending = {queue.key: queue.pending for queue in queues}
    # A key that has no device is shown while a request waits for it.
    keys = sorted({*total, *(key for key, count in pending.items() if count)})
    return [(key, total[key], free[key], pending.get(key, 0)) for key in keys]


def _present(devices: Sequence[DeviceInfo]) -> list[DeviceInfo]:
    return [device for device in devices if device.state != "gone"]


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in zip(head, *rows)]
    lines = [head, tuple("-" * width for width in widths), *rows]
    return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(line, widths)).rstrip() for line in lines)
