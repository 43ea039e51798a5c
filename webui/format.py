"""Numbers and times as a person reads them."""

from __future__ import annotations

from datetime import UTC, datetime

from tuner.number_text import DASH as DASH
from tuner.number_text import duration as duration
from tuner.number_text import three


def rate(flops: float | None, seconds: float | None) -> str:
    """Operations a second: 123 GFLOP/s. A dash when the operations are not known."""
    if not flops or not seconds:
        return DASH
    value = flops / seconds
    for scale, unit in ((1e12, "TFLOP/s"), (1e9, "GFLOP/s"), (1e6, "MFLOP/s")):
        if value >= 0.9995 * scale:
            return f"{three(value / scale)} {unit}"
    return f"{three(value / 1e3)} kFLOP/s"


def operations(value: float) -> str:
    """A number of operations: 268 MFLOP."""
    for scale, unit in ((1e12, "TFLOP"), (1e9, "GFLOP"), (1e6, "MFLOP")):
        if value >= 0.9995 * scale:
            return f"{three(value / scale)} {unit}"
    return f"{three(value / 1e3)} kFLOP"


def speed(flops: float | None, seconds: float | None) -> str:
    """The rate where the operations are known, else the time."""
    return rate(flops, seconds) if flops and seconds else duration(seconds)


def times(slow: float | None, fast: float | None) -> str:
    """How many times faster: 12.3×."""
    return f"{three(slow / fast)}×" if slow and fast else DASH


def count(value: int) -> str:
    """Digits in groups of three: 12 345 (narrow no-break spaces)."""
    return f"{value:,}".replace(",", "\u202f")


def percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f} %" if whole else DASH


def size(value: float) -> str:
    """Bytes: 512 KiB, 15.6 GiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1023.5:
            return f"{value:.0f} {unit}" if unit == "B" else f"{three(value)} {unit}"
        value /= 1024
    return f"{three(value)} TiB"


def stamp(moment: datetime | None) -> str:
    """2026-03-01 14:05:09 UTC."""
    return DASH if moment is None else f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def ago(moment: datetime | None, now: datetime) -> str:
    """How long ago, coarsely: now, 12 s ago, 5 min ago, 3 h ago, 4 days ago."""
    return DASH if moment is None else ago_s((now - moment).total_seconds())


def ago_s(seconds: float) -> str:
    """The same of seconds that have passed since."""
    if seconds < 2:
        return "now"
    if seconds < 90:
        return f"{seconds:.0f} s ago"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min ago"
    if seconds < 36 * 3600:
        return f"{seconds / 3600:.0f} h ago"
    return f"{seconds / 86400:.0f} days ago"


def key(digest: str) -> str:
    """The start of a long hex key: enough to tell keys apart on a page."""
    return digest[:12]
