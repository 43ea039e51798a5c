"""Opening hours: what they say, when they open, and what cannot be read."""

from __future__ import annotations

from datetime import datetime

import pytest

from rpc_server.machine.hours import Hours, HoursError

NIGHTS = Hours.parse("Mon-Fri 19:00-07:00, Sat, Sun", "Europe/Berlin")


def at(text: str, hours: Hours = NIGHTS) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=hours.zone)


@pytest.mark.parametrize(
    ("when", "is_open"),
    [
        ("2030-01-07 18:59", False),  # a Monday
        ("2030-01-07 19:00", True),
        ("2030-01-08 06:59", True),
        ("2030-01-08 07:00", False),
        ("2030-01-11 23:00", True),  # Friday night, and the weekend after it
        ("2030-01-12 12:00", True),
        ("2030-01-13 23:59", True),
        ("2030-01-14 00:00", False),  # Sunday has no night
    ],
)
def test_nights_and_weekends(when: str, is_open: bool) -> None:
    assert NIGHTS.is_open(at(when)) is is_open


def test_closed_says_when_it_opens() -> None:
    text = NIGHTS.closed(at("2030-01-08 12:30"))
    assert text == "lent Mon-Fri 19:00-07:00, Sat, Sun only; opens Tue 19:00 CET"
    assert NIGHTS.closed(at("2030-01-08 20:00")) == ""


def test_hours_may_run_over_the_end_of_the_week() -> None:
    sunday = Hours.parse("Sun 22:00-02:00", "UTC")
    assert sunday.is_open(at("2030-01-13 23:00", sunday))
    assert sunday.is_open(at("2030-01-14 01:59", sunday))
    assert not sunday.is_open(at("2030-01-14 02:00", sunday))
    assert sunday.opens(at("2030-01-14 02:00", sunday)) == at("2030-01-20 22:00", sunday)


def test_days_may_wrap_and_times_may_be_whole() -> None:
    assert Hours.parse("Sat-Mon", "UTC").spans == ((0, 1440), (7200, 10080))
    assert Hours.parse("mon 00:00-24:00").spans == ((0, 1440),)


@pytest.mark.parametrize(
    ("text", "said"),
    [("Mon 25:00-26:00", "no time 25:00"), ("Moon", "no day"), ("", "no opening time"), ("Mon 9-5", "no opening")],
)
def test_what_cannot_be_read_is_named(text: str, said: str) -> None:
    with pytest.raises(HoursError, match=said):
        Hours.parse(text)


def test_an_unknown_zone_is_named() -> None:
    with pytest.raises(HoursError, match="'Mars/Olympus'"):
        Hours.parse("Mon", "Mars/Olympus")
