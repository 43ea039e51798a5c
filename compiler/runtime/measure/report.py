"""The report of a profiling run, a row a call: as CSV, a table, and JSON that reads back."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from compiler.errors import ArgumentError


@dataclass(frozen=True, slots=True)
class Duration:
    microseconds: float


@dataclass(frozen=True, slots=True)
class Count:
    value: int


@dataclass(frozen=True, slots=True)
class Percent:
    percent: float


@dataclass(frozen=True, slots=True)
class Ratio:
    ratio: float


Metric: TypeAlias = Duration | Count | Percent | Ratio | str
Row: TypeAlias = Mapping[str, Metric]

_FIRST = ("Name", "Duration (us)", "Percent", "Device", "Count", "Argument Shapes")
"""The order of the usual columns; others follow as they come."""
_SAME_CALL = ("Name", "Device", "Argument Shapes")
"""What calls have in common that aggregate to one line."""
_MAX_JSON = 64 << 20

# tag in JSON -> how to read it, and its type in Python
_READERS: dict[str, tuple[Callable[[Any], Metric], type | tuple[type, ...]]] = {
    "microseconds": (lambda v: Duration(float(v)), (int, float)),
    "count": (lambda v: Count(v), int),
    "percent": (lambda v: Percent(float(v)), (int, float)),
    "ratio": (lambda v: Ratio(float(v)), (int, float)),
    "string": (lambda v: str(v), str),
}


class Report:
    """A container of metrics: one mapping for each call, one for each device, and how the run was set up.

    calls: a mapping of column to metric for each call, in order. device_metrics: the same for each device, over the
    whole run. configuration: names to metrics or strings. A metric is a Duration, Count, Percent, Ratio or str. Raises
    ArgumentError (a ValueError) for any other value.
    """

    def __init__(
        self,
        calls: Sequence[Mapping[str, Any]],
        device_metrics: Mapping[str, Mapping[str, Any]],
        configuration: Mapping[str, Any],
    ) -> None:
        self.calls: tuple[Row, ...] = tuple(_row(call, f"call {i}") for i, call in enumerate(calls))
        self.device_metrics: dict[str, Row] = {d: _row(m, f"device {d}") for d, m in device_metrics.items()}
        self.configuration: Row = _row(configuration, "the configuration")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Report) and self._parts() == other._parts()

    __hash__ = None  # type: ignore[assignment]

    def _parts(self) -> tuple[object, ...]:
        return self.calls, self.device_metrics, self.configuration

    def __repr__(self) -> str:
        return f"<Report of {len(self.calls)} calls>"

    def __str__(self) -> str:
        return self.table()

    def csv(self) -> str:
        """The calls, without what was gathered over the whole run; numbers in full."""
        out = io.StringIO()
        columns = _columns(self.calls)
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(columns)
        for call in self.calls:
            writer.writerow([_plain(call[c]) if c in call else "" for c in columns])
        return out.getvalue()

    def table(self, sort: bool = True, aggregate: bool = True, col_sums: bool = True) -> str:
        """The report as text for people.
        `aggregate` joins calls of one function with one device and argument shapes to a line, whose metrics are
        sums. `sort` puts the longest first (without `aggregate`, calls stay in order of appearance). `col_sums` adds
        the sum of each column, and the metrics of each device."""
        rows = _aggregated(self.calls) if aggregate else list(self.calls)
        if sort and aggregate:
            rows.sort(key=lambda row: -_microseconds(row))
        tail: list[dict[str, Metric]] = []
        if col_sums and rows:
            tail.append({"Name": "Sum", **_sums(rows)})
            tail += [{"Name": "Total", "Device": d, **m} for d, m in self.device_metrics.items()]
        columns = _columns([*rows, *tail])
        body = [[_shown(row[c]) if c in row else "" for c in columns] for row in rows]
        foot = [[_shown(row[c]) if c in row else "" for c in columns] for row in tail]
        widths = [max(len(line[i]) for line in [columns, *body, *foot]) for i in range(len(columns))]
        right = [any(not isinstance(row.get(c, ""), str) for row in rows) for c in columns]
        rule = ["-" * sum([*widths, 2 * max(len(widths) - 1, 0)])] if foot else []
        lines = [_line(columns, widths, right), *(_line(x, widths, right) for x in body)]
        lines += [*rule, *(_line(x, widths, right) for x in foot)]
        if self.configuration:
            lines += ["", "Configuration", *(f"{k}: {_shown(v)}" for k, v in self.configuration.items())]
        return "\n".join(lines) + "\n"

    def json(self) -> str:
        """The whole report.
        Each metric is an object of one key that tells its kind: microseconds, count, percent, ratio, string."""
        return json.dumps(
            {
                "calls": [_tagged_row(call) for call in self.calls],
                "device_metrics": {device: _tagged_row(row) for device, row in self.device_metrics.items()},
                "configuration": _tagged_row(self.configuration),
            }
        )

    def trace(self) -> str:
        """The calls one after the other as a trace, for Perfetto (ui.perfetto.dev) or chrome://tracing."""
        events: list[dict[str, object]] = []
        devices = dict.fromkeys(_text(call, "Device") for call in self.calls)
        threads = {device: number for number, device in enumerate(devices)}
        for device, number in threads.items():
            events.append({"ph": "M", "name": "thread_name", "pid": 1, "tid": number, "args": {"name": device}})
        at = 0.0
        for call in self.calls:
            said = {column: _plain(value) for column, value in call.items() if column not in ("Name", "Duration (us)")}
            spent = _microseconds(call)
            where = {"pid": 1, "tid": threads[_text(call, "Device")], "ts": at, "dur": spent}
            events.append({"ph": "X", "name": _text(call, "Name"), "cat": "call", **where, "args": said})
            at += spent
        return json.dumps({"traceEvents": events, "displayTimeUnit": "ns"})

    @classmethod
    def from_json(cls, s: str) -> Report:
        """Read what `json` wrote. Raises ArgumentError (a ValueError), saying where, for anything else."""
        if len(s) > _MAX_JSON:
            raise ArgumentError(f"a report's JSON may have {_MAX_JSON:,} characters, not {len(s):,}")
        try:
            data = json.loads(s)
        except (ValueError, RecursionError) as error:
            raise ArgumentError(f"a report's JSON cannot be read: {error}") from None
        if not isinstance(data, dict) or not {"calls", "device_metrics"} <= data.keys():
            raise ArgumentError("a report's JSON is an object with calls, device_metrics and configuration")
        calls, devices = data["calls"], data["device_metrics"]
        if not isinstance(calls, list) or not isinstance(devices, dict):
            raise ArgumentError("in a report's JSON, calls is a list and device_metrics an object")
        return cls(
            [_read_row(call, f"call {i}") for i, call in enumerate(calls)],
            {device: _read_row(row, f"device {device}") for device, row in devices.items()},
            _read_row(data.get("configuration", {}), "the configuration"),
        )


# -------------------------------------------------------------------------------------------- rows


def _row(values: Mapping[str, Any], where: str) -> dict[str, Metric]:
    for name, value in values.items():
        if not isinstance(value, Duration | Count | Percent | Ratio | str):
            hint = "a metric is a Duration, Count, Percent, Ratio or str"
            raise ArgumentError(f"{name!r} of {where} is {value!r}, which is no metric", hint=hint)
    return dict(values)


def _columns(rows: Sequence[Row]) -> list[str]:
    seen = dict.fromkeys(name for row in rows for name in row)
    return [*(c for c in _FIRST if c in seen), *(c for c in seen if c not in _FIRST)]


def _aggregated(calls: Sequence[Row]) -> list[Row]:
    groups: dict[tuple[Metric | None, ...], list[Row]] = {}
    for call in calls:
        groups.setdefault(tuple(call.get(c) for c in _SAME_CALL), []).append(call)
    return [{**group[0], **_sums(group)} for group in groups.values()]


def _sums(rows: Sequence[Row]) -> dict[str, Metric]:
    """Durations, counts and percents added up. Ratios and strings have no sum."""
    found: dict[str, Metric] = {}
    for row in rows:
        for name, value in row.items():
            match found.get(name), value:
                case _, str() | Ratio():
                    continue
                case None, _:
                    found[name] = value
                case Duration(a), Duration(b):
                    found[name] = Duration(a + b)
                case Count(n), Count(m):
                    found[name] = Count(n + m)
                case Percent(a), Percent(b):
                    found[name] = Percent(a + b)
                case _:
                    raise ArgumentError(f"column {name!r} mixes kinds of metrics: {found[name]!r} and {value!r}")
    return found


def _text(row: Row, column: str) -> str:
    value = row.get(column, "")
    return value if isinstance(value, str) else ""


def _microseconds(row: Row) -> float:
    duration = row.get("Duration (us)")
    return duration.microseconds if isinstance(duration, Duration) else 0.0


# ---------------------------------------------------------------------------------------- metrics


def _plain(value: Metric) -> object:
    match value:
        case Duration(number) | Percent(number) | Ratio(number):
            return number
        case Count(whole):
            return whole
        case str():
            return value


def _shown(value: Metric) -> str:
    match value:
        case Duration(number):
            return f"{number:,.2f}"
        case Percent(number):
            return f"{number:.2f}"
        case Ratio(number):
            return f"{number:.3g}"
        case Count(whole):
            return f"{whole:,}"
        case str():
            return value


def _tagged_row(row: Row) -> dict[str, dict[str, object]]:
    tags = {Duration: "microseconds", Count: "count", Percent: "percent", Ratio: "ratio"}
    return {name: {tags.get(type(value), "string"): _plain(value)} for name, value in row.items()}


def _read_row(row: Any, where: str) -> dict[str, Metric]:
    if not isinstance(row, dict):
        raise ArgumentError(f"in a report's JSON, {where} is an object, not {type(row).__name__}")
    return {name: _read(value, f"{name!r} of {where}") for name, value in row.items()}


def _read(value: Any, where: str) -> Metric:
    if isinstance(value, dict) and len(value) == 1:
        [(tag, content)] = value.items()
        reader = _READERS.get(tag)
        if reader is not None and isinstance(content, reader[1]) and not isinstance(content, bool):
            return reader[0](content)
    kinds = ", ".join(_READERS)
    raise ArgumentError(f"in a report's JSON, {where} is no metric", hint=f"an object of one key out of {kinds}")


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    placed = [x.rjust(w) if r else x.ljust(w) for x, w, r in zip(cells, widths, right, strict=True)]
    return "  ".join(placed).rstrip()
