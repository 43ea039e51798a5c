"""What the page of a device says of its machine."""

from __future__ import annotations

from tuner.records.model import Device
from tuner.records.types import utcnow
from webui.pages.devices import hardware


def test_the_tracker_and_the_records_are_put_together():
    known = Device(
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
