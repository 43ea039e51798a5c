"""Numbers on pages."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webui.format import ago, count, duration, percent, rate, size, speed, stamp, times
from webui.pages.templates import first_line, pretty, trace_text, words


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "–"),
        (0.0, "0 s"),
        (8.5e-7, "850 ns"),
        (1.234e-5, "12.3 µs"),
        (9.9949e-4, "999 µs"),
        (9.996e-4, "1.00 ms"),
        (1.234e-3, "1.23 ms"),
        (0.45, "450 ms"),
        (45.64, "45.6 s"),
        (59.99, "1 min 00 s"),
        (245, "4 min 05 s"),
        (3599.7, "1 h 00 min"),
        (7980, "2 h 13 min"),
        (200_000, "2 days 7 h"),
    ],
)
def test_durations(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


@given(st.floats(min_value=1e-9, max_value=1e7))
def test_durations_have_at_most_three_digits_and_a_unit(seconds: float) -> None:
    assert re.fullmatch(
        r"(\d\.\d\d|\d\d\.\d|\d{1,3}) (ns|µs|ms|s)|\d+ (min \d\d s|h \d\d min|days \d+ h)", duration(seconds)
    )


@given(st.floats(min_value=1e-8, max_value=50), st.floats(min_value=1e-8, max_value=50))
def test_a_longer_duration_never_reads_shorter(a: float, b: float) -> None:
    units = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0}

    def value(seconds: float) -> float:
        number, unit = duration(seconds).split()
        return float(number) * units[unit]

    if a <= b:
        assert value(a) <= value(b) * (1 + 1e-9)


def test_rates() -> None:
    assert rate(2e9, 0.01) == "200 GFLOP/s"
    assert rate(2e9, 1.0) == "2.00 GFLOP/s"
    assert rate(1e6, 1.0) == "1.00 MFLOP/s"
    assert rate(5e3, 1.0) == "5.00 kFLOP/s"
    assert rate(9.9999e11, 1.0) == "1.00 TFLOP/s"
    assert rate(None, 1.0) == rate(1.0, None) == "–"
    assert speed(None, 0.01) == "10.0 ms"
    assert speed(2e9, 0.01) == "200 GFLOP/s"
    assert speed(2e9, None) == "–"


def test_small_words() -> None:
    assert times(2.0, 0.1) == "20.0×"
    assert times(None, 1.0) == "–"
    assert count(1234567) == "1\u202f234\u202f567"
    assert percent(1, 3) == "33 %"
    assert percent(1, 0) == "–"
    assert (size(512), size(1536), size(3 * 2**40)) == ("512 B", "1.50 KiB", "3.00 TiB")


def test_moments() -> None:
    now = datetime(2026, 3, 1, 12, tzinfo=UTC)
    assert stamp(now) == "2026-03-01 12:00:00 UTC"
    assert ago(None, now) == "–"
    texts = [ago(now - timedelta(seconds=s), now) for s in (0, 12, 300, 7200, 400_000)]
    assert texts == ["now", "12 s ago", "5 min ago", "2 h ago", "5 days ago"]
    assert ago(now + timedelta(seconds=3), now) == "now"


def test_texts() -> None:
    assert words("run_timeout") == "run timeout"
    assert first_line("\n  \n  what went wrong \nmore") == "what went wrong"
    assert len(first_line("x" * 1000)) == 160
    assert pretty("not json") == "not json"
    assert pretty('{"a":[1,{"b":2}],"c":[]}') == '{\n  "a": [\n    1,\n    {"b": 2}\n  ],\n  "c": []\n}'


def test_traces_read_as_python_and_unknown_ones_as_they_are() -> None:
    text = '{"format":"tunefarm.trace","version":1,"steps":[["get_block",[],{"name":"C"},["b0"]]],"decisions":[]}'
    assert trace_text(text) == "b0 = sch.get_block(name='C')"
    assert trace_text(text.replace('"version":1', '"version":99')).startswith('{\n  "format": "tunefarm.trace"')
