"""The processor's energy: the counters of RAPL, as Linux shows them under /sys/class/powercap.

A counter covers a whole package or its memory, so it includes whatever else ran there. It counts microjoules, is
renewed about every millisecond, and starts again at zero when it is full. Linux lets only root read it unless the
machine's owner allows more; `why_not` says what is missing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

ROOT = "/sys/class/powercap"
_PACKAGE = re.compile(r"intel-rapl:\d+")
_PART = re.compile(r"intel-rapl:\d+:\d+")
_MICRO = 1e-6


@dataclass(frozen=True, slots=True)
class Meter:
    """A counter: its file, and the microjoules at which it starts again."""

    path: Path
    full_uj: float


@lru_cache(maxsize=4)
def meters(root: str = ROOT) -> tuple[Meter, ...]:
    """The counters to add up: each package's, and its memory's, which a package's leaves out.

    Those of parts of a package (`core`, `uncore`) and of the whole board (`psys`) would count the same energy twice.
    """
    found = []
    for zone in sorted(Path(root).glob("intel-rapl:*")):
        name = _text(zone / "name")
        counts = name.startswith("package") if _PACKAGE.fullmatch(zone.name) else name == "dram"
        if counts and (_PACKAGE.fullmatch(zone.name) or _PART.fullmatch(zone.name)):
            full = _number(zone / "max_energy_range_uj")
            if full:
                found.append(Meter(zone / "energy_uj", full))
    return tuple(found)


def read(root: str = ROOT) -> tuple[float, ...] | None:
    """Microjoules of every counter now; None where there is none, or one may not be read."""
    found = [_number(meter.path) for meter in meters(root)]
    known = tuple(value for value in found if value is not None)
    return known if known and len(known) == len(found) else None


def joules(before: Sequence[float] | None, after: Sequence[float] | None, root: str = ROOT) -> float | None:
    """Joules between two readings less than a counter's round apart; None if they are unknown."""
    if before is None or after is None or len(before) != len(after) or len(before) != len(meters(root)):
        return None
    spent = 0.0
    for meter, start, end in zip(meters(root), before, after, strict=True):
        spent += end - start if end >= start else end - start + meter.full_uj
    return spent * _MICRO


def why_not(root: str = ROOT) -> str:
    """Why energy cannot be read here, and what helps; "" where it can."""
    if not meters(root):
        return f"this machine shows no energy counters under {root}, as most virtual machines"
    if read(root) is None:
        return f"{meters(root)[0].path} may be read by root only; its owner can allow more: chmod a+r"
    return ""


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _number(path: Path) -> float | None:
    text = _text(path)
    return float(text) if text.isdecimal() else None
