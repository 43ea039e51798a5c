"""Texts for people who wait for a device."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rpc_server.wire.tracker_messages import Queued


def span(seconds: float) -> str:
    """A duration in one unit: 3 s, 12 min, 5 h, 2 d."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def place_text(place: Queued) -> str:
    """Where a request stands, and when its turn may come."""
    if not place.devices:
        return "no registered device matches; waiting for one"
    eta = f", about {span(place.eta_s)}" if place.eta_s is not None else ""
    plural = "" if place.devices == 1 else "s"
    note = f"; {place.note}" if place.note else ""
    return f"number {place.position} of {place.rivals} in the queue for {place.devices} device{plural}{eta}{note}"
