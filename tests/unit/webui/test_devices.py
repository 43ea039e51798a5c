"""A device's page describes its machine."""

from __future__ import annotations

from tuner.records.db.types import utcnow
from tuner.records.model import DeviceRecord
from webui.pages.devices import hardware


def test_the_tracker_and_the_records_are_put_together():
    known = DeviceRecord(
        id=1,
        name="a/0",
        key="cpu",
        device_class="c",
        fingerprint={"cpu_model": "shown apart", "kernel": "6.1.0", "caches": {"L1d": 32768, "L2": 9}, "gpu": None},
        features=(),
        first_seen=utcnow(),
        last_seen=utcnow(),
    )
    assert hardware(known, {"threads": 4, "kernel": "6.2.0", "tags": ("x", "y")}) == [
        ("Caches", "L1d 32768, L2 9"),
        ("Kernel", "6.2.0"),
        ("Tags", "x, y"),
        ("Threads", "4"),
    ]
    assert hardware(None, {}) == []


def test_sizes_and_caches_are_in_words():
    caches = [{"level": 1, "kind": "data", "size": 32768, "line": 64}, {"level": 3, "kind": "unified", "size": 1 << 25}]
    facts = {"caches": caches, "memory": 25276514304, "gpu_memory": 0, "multiprocessors": 0, "virtual": True}
    assert hardware(None, {**facts, "device_class": "shown apart"}) == [
        ("Caches", "L1 data 32.0 KiB, L3 unified 32.0 MiB"),
        ("Memory", "23.5 GiB"),
        ("Virtual", "yes"),
    ]
