"""Numbers as a person reads them, in reasons, on pages and on the command line."""

from __future__ import annotations

from collections.abc import Iterable

DASH = "–"


def duration(seconds: float | None) -> str:
    """Three digits and a unit: 850 ns, 12.3 µs, 1.23 ms, 45.6 s, 4 min 05 s, 2 h 13 min."""
    if seconds is None:
        return DASH
    if seconds == 0:
        return "0 s"
    for scale, unit in ((1e-9, "ns"), (1e-6, "µs"), (1e-3, "ms"), (1.0, "s")):
        if seconds < 59.95 and seconds < 999.5 * scale:
            return f"{three(seconds / scale)} {unit}"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    minutes = round(seconds / 60)
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60:02d} min"
    return f"{minutes // 1440} days {minutes // 60 % 24} h"


def counted(number: int, noun: str) -> str:
    """A number of things whose plural ends in "s": 1 run, 12 runs."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def ranges(numbers: Iterable[int]) -> str:
    """Rising whole numbers: 1-4, 7."""
    ends: list[list[int]] = []
    for number in numbers:
        if ends and number == ends[-1][1] + 1:
            ends[-1][1] = number
        else:
            ends.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in ends)


def hours(value: float) -> str:
    """Device hours as quotas show them: 0.00028, 0.004, 5, 12.3."""
    if 0 < value < 0.001:
        return "less than 0.00001" if value < 1e-5 else f"{value:.5f}".rstrip("0")
    return f"{round(value, 1 if value >= 10 else 3):g}"


def three(value: float) -> str:
    """Three significant digits, never in scientific notation."""
    if value == 0:
        return "0"
    decimals = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:.{decimals}f}"


def energy(joules: float) -> str:
    """Three digits and a unit: 1.5 J, 23 mJ, 4.51 µJ."""
    for scale, unit in ((1.0, "J"), (1e-3, "mJ")):
        if joules >= scale:
            return f"{joules / scale:.3g} {unit}"
    return f"{joules * 1e6:.3g} µJ"


def amount(value: float, unit: str) -> str:
    """A cost in its unit, "s" or "J"."""
    return energy(value) if unit == "J" else duration(value)
