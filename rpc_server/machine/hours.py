"""Hours in which a box is lent: `Mon-Fri 19:00-07:00, Sat, Sun`, in the local time of one place."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from rpc_server.errors import RPCError

_OPENS = "; opens "
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_DAY = 24 * 60
_WEEK = 7 * _DAY
_PART = re.compile(r"([A-Za-z]+)(?:\s*-\s*([A-Za-z]+))?(?:\s+(\d{1,2}):(\d\d)\s*-\s*(\d{1,2}):(\d\d))?")


class HoursError(RPCError, ValueError, kind="hours"):
    """Opening hours that cannot be read."""


@dataclass(frozen=True)
class Hours:
    """Weekly opening hours.
    `spans` are minutes since Monday 00:00, [start, end), sorted and apart from each other. A span over Sunday
    midnight goes on at 0. `zone` None: this machine's local time."""

    text: str
    spans: tuple[tuple[int, int], ...]
    zone: tzinfo | None = None

    @classmethod
    def parse(cls, text: str, zone: str = "") -> Hours:
        """Parse days or ranges of days, each with or without times, separated by commas.
        A time that ends before it begins ends on the next day. Raises HoursError."""
        covered: list[tuple[int, int]] = []
        for part in text.split(","):
            covered += _spans(part.strip(), text)
        try:
            where = ZoneInfo(zone) if zone else None
        except (ZoneInfoNotFoundError, ValueError):
            raise HoursError(f"no time zone is called {zone!r}", hint="for example Europe/Berlin or UTC") from None
        return cls(text, _joined(covered), where)

    def is_open(self, when: datetime) -> bool:
        minute = self._minute(when)
        index = bisect_right(self.spans, (minute, _WEEK)) - 1
        return index >= 0 and minute < self.spans[index][1]

    def opens(self, when: datetime) -> datetime:
        """The next opening after `when`, at which it is closed, in local time."""
        local = when.astimezone(self.zone)
        minute = self._minute(when)
        starts = [start for start, _ in self.spans]
        wait = min((start - minute) % _WEEK for start in starts)
        return (local.replace(second=0, microsecond=0, tzinfo=None) + timedelta(minutes=wait)).replace(
            tzinfo=local.tzinfo
        )

    def closed(self, when: datetime) -> str:
        """Why the box is not lent at `when`, with the next opening; "" when it is open."""
        if self.is_open(when):
            return ""
        opens = self.opens(when)
        return f"lent {self.text} only{_OPENS}{_DAYS[opens.weekday()]} {opens:%H:%M} {opens.tzname()}"

    def _minute(self, when: datetime) -> int:
        local = when.astimezone(self.zone)
        return local.weekday() * _DAY + local.hour * 60 + local.minute


def next_opening(closed: str) -> str:
    """Return when the box opens, from the text of `Hours.closed`.
    "" for a box that is closed for another reason."""
    return closed.rpartition(_OPENS)[2] if _OPENS in closed else ""


def _spans(part: str, text: str) -> list[tuple[int, int]]:
    found = _PART.fullmatch(part)
    if found is None:
        raise HoursError(f"{part!r} in {text!r} is no opening time", hint='for example "Mon-Fri 19:00-07:00, Sat, Sun"')
    first = _day(found[1], text)
    last = _day(found[2], text) if found[2] else first
    days = [(first + step) % 7 for step in range((last - first) % 7 + 1)]
    if found[3] is None:
        return [(day * _DAY, (day + 1) * _DAY) for day in days]
    start, end = (_time(found[i], found[i + 1], part) for i in (3, 5))
    end += _DAY if end <= start else 0
    spans = []
    for day in days:
        spans.append((day * _DAY + start, min(day * _DAY + end, _WEEK)))
        if day * _DAY + end > _WEEK:
            spans.append((0, day * _DAY + end - _WEEK))
    return spans


def _day(word: str, text: str) -> int:
    for number, name in enumerate(_DAYS):
        if word.capitalize() == name:
            return number
    raise HoursError(f"{word!r} in {text!r} is no day", hint=f"days are {', '.join(_DAYS)}")


def _time(hour: str, minute: str, part: str) -> int:
    total = int(hour) * 60 + int(minute)
    if int(minute) > 59 or total > _DAY:
        raise HoursError(f"there is no time {hour}:{minute} in {part!r}", hint="times go from 00:00 to 24:00")
    return total


def _joined(spans: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    joined: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return tuple(joined)
