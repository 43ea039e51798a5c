"""A benchmark run as text: Markdown for reviews and chats, HTML to keep or send."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from tuner.bench.changes import LEAST_HISTORY, ChangeKind, Judgement, judge
from tuner.bench.series import CONFIRMED
from tuner.errors import WorkloadError
from tuner.number_text import counted, three
from tuner.records.farm.model_farm import BenchResult, BenchRun
from tuner.task import TuningTask, argument_bytes
from tuner.webhook import post_webhook


@dataclass(frozen=True)
class CallWork:
    """The work of one call of a kernel: operations, and bytes of arguments; None where it is not known."""

    flops: float | None = None
    bytes: int | None = None

    @staticmethod
    def of(kernel: str) -> CallWork:
        """Return the work of a named workload; nothing is known of others."""
        try:
            task = TuningTask.from_spec(kernel, "llvm")
        except WorkloadError:
            return CallWork()
        return CallWork(task.flops or None, argument_bytes(task.func))


@dataclass(frozen=True)
class ReportLine:
    """One kernel on one device: its result in a run, compared with the results before.

    `peers` compares it with other devices of its class, if it has too few results of its own. `through` are the
    kernels that made a model slower.
    """

    result: BenchResult
    work: CallWork
    judgement: Judgement | None
    peers: Judgement | None = None
    through: tuple[str, ...] = ()

    @property
    def lost_s(self) -> float:
        """Seconds a call more than usual."""
        cost, judgement = self.result.cost, self.judgement
        return 0.0 if cost is None or judgement is None else cost - judgement.baseline

    @property
    def is_slow_for_its_class(self) -> bool:
        """Whether a device without results of its own to compare with is slower than others of its class."""
        return self.peers is not None and self.peers.kind is ChangeKind.SLOWER

    @property
    def speed(self) -> str:
        """GFLOP/s; for kernels that only move data, or compute less than an operation a byte, GB/s."""
        cost, flops, moved = self.result.cost, self.work.flops, self.work.bytes
        if cost is None or not (flops or moved):
            return "–"
        if moved and (flops or 0.0) < moved:
            return f"{three(moved / cost / 1e9)} GB/s"
        return f"{three((flops or 0.0) / cost / 1e9)} GFLOP/s"

    @property
    def change(self) -> ChangeKind | None:
        """SLOWER or FASTER when that was borne out by measuring again."""
        if self.judgement is None or not self.judgement.changed or CONFIRMED not in self.result.noise:
            return None
        return self.judgement.kind

    @property
    def verdict(self) -> str:
        """In words; "" when steady."""
        if self.result.failure is not None:
            return f"failed: {self.result.failure}"
        if self.judgement is None or self.judgement.kind is ChangeKind.STEADY:
            return ""
        if self.judgement.kind is ChangeKind.NEW:
            if self.peers is not None and self.peers.changed:
                than = "slower" if self.peers.kind is ChangeKind.SLOWER else "faster"
                return f"{than} than its class: {self.peers.ratio:.2f}× the time"
            count = self.judgement.count
            return f"too early to judge: {count} of {LEAST_HISTORY} runs before" if count else "new"
        if self.change is None:
            return "suspect, not borne out"
        ratio = self.judgement.ratio
        if self.change is ChangeKind.SLOWER:
            through = f", through {', '.join(self.through[:3])}" if self.through else ""
            return f"slower: {ratio:.2f}× the time{through}"
        return f"faster: {1 / ratio:.2f}×"


def line(
    result: BenchResult, history: Sequence[BenchResult], work: CallWork, peers: Sequence[BenchResult] = ()
) -> ReportLine:
    """`history` are results of the series before this one, `peers` those of other devices of the class."""
    if result.cost is None:
        return ReportLine(result, work, None)
    others = [r.cost for r in peers if r.cost is not None]
    judged = judge(others, result.cost) if len(others) >= LEAST_HISTORY else None
    return ReportLine(result, work, judge([r.cost for r in history if r.cost is not None], result.cost), judged)


def _cells(entry: ReportLine) -> tuple[str, ...]:
    result = entry.result
    time = "" if result.cost is None else f"{1e3 * result.cost:.4g}"
    spread = "" if result.low is None or result.high is None else f"{1e3 * result.low:.4g} to {1e3 * result.high:.4g}"
    usual = "" if entry.judgement is None or not entry.judgement.count else f"{1e3 * entry.judgement.baseline:.4g}"
    return result.device, result.kernel, time, spread, entry.speed, usual, entry.verdict


HEAD = ("Device", "Kernel", "ms", "95 % interval, ms", "speed", "usual ms", "")


def markdown(run: BenchRun, lines: Sequence[ReportLine]) -> str:
    """GitHub's Markdown: a headline, what changed, the table."""
    out = [f"# {title(run)}", "", summary(run, lines), ""]
    rows = [HEAD, tuple("---" for _ in HEAD), *map(_cells, lines)]
    out += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    failures = [entry.result for entry in lines if entry.result.failure is not None]
    for failed in failures:
        text = failed.failure_text.strip() or "no text"
        out += ["", f"`{failed.kernel}` on `{failed.device}`:", "", "```", text.replace("```", "` ` `"), "```"]
    return "\n".join(out) + "\n"


def html(run: BenchRun, lines: Sequence[ReportLine]) -> str:
    """One file without anything from elsewhere."""
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in HEAD)
    body = "\n".join(_html_row(entry) for entry in lines)
    return _PAGE.format(title=escape(title(run)), summary=escape(summary(run, lines)), head=head, body=body)


def _html_row(entry: ReportLine) -> str:
    kind = "failed" if entry.result.failure else str(entry.change or "")
    cells = "".join(f"<td>{escape(cell)}</td>" for cell in _cells(entry))
    return f'<tr class="{kind}" title="{escape(entry.result.failure_text[:500])}">{cells}</tr>'


def title(run: BenchRun) -> str:
    return f"Suite {run.suite}, {run.started_at:%Y-%m-%d %H:%M} UTC"


def summary(run: BenchRun, lines: Sequence[ReportLine]) -> str:
    """How many of what."""
    devices = {entry.result.device for entry in lines}
    kinds = [entry.change for entry in lines]
    failed = sum(entry.result.failure is not None for entry in lines)
    versions = ", ".join(f"{name} {version}" for name, version in run.toolchain.items())
    parts = [
        f"{counted(len(lines), 'result')} on {counted(len(devices), 'device')}",
        f"{kinds.count(ChangeKind.SLOWER)} slower",
        f"{kinds.count(ChangeKind.FASTER)} faster",
        f"{failed} failed",
        f"run {run.id}, {run.state}, {versions}",
    ]
    return "; ".join(parts) + "."


def as_json(entry: ReportLine) -> Mapping[str, Any]:
    """One line for programs; times in seconds."""
    result, judgement = entry.result, entry.judgement
    return {
        "device": result.device,
        "device_class": result.device_class,
        "kernel": result.kernel,
        "time_s": result.cost,
        "low_s": result.low,
        "high_s": result.high,
        "flops": entry.work.flops,
        "bytes": entry.work.bytes,
        "config": result.config_digest or None,
        "calibration_s": result.calibration,
        "failure": result.failure,
        "failure_text": result.failure_text,
        "verdict": None if judgement is None else str(judgement.kind),
        "confirmed": entry.change is not None,
        "ratio": None if judgement is None else judgement.ratio,
        "baseline_s": None if judgement is None else judgement.baseline,
        "class_ratio": None if entry.peers is None else entry.peers.ratio,
        "through": list(entry.through),
        "results_before": None if judgement is None else judgement.count,
        "measured_at": result.measured_at.isoformat(),
    }


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }}
table {{ border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }}
th, td {{ padding: 0.35rem 0.7rem; text-align: left; border-bottom: 1px solid #8885; }}
td:nth-child(n+3):nth-child(-n+6), th:nth-child(n+3):nth-child(-n+6) {{ text-align: right; }}
tr.slower td:last-child, tr.failed td:last-child {{ color: light-dark(#b3261e, #ff8f86); font-weight: 600; }}
tr.faster td:last-child {{ color: light-dark(#1c6b4a, #5fcf9c); font-weight: 600; }}
</style>
</head>
<body>
<h1>{title}</h1>
<p>{summary}</p>
<table>
<caption hidden>Results</caption>
<thead><tr>{head}</tr></thead>
<tbody>
{body}
</tbody>
</table>
</body>
</html>
"""


def send_alert(url_file: str, run: BenchRun, changed: Sequence[ReportLine]) -> None:
    """POST the changes as JSON: `text` for chats, `run` and `changes` for programs.
    Raises WebhookError."""
    lines = [f"{entry.result.kernel} on {entry.result.device}: {entry.verdict}" for entry in changed]
    body = {
        "text": "\n".join([f"tunefarm: {title(run)}", *lines]),
        "run": run.id,
        "suite": run.suite,
        "changes": [as_json(entry) for entry in changed],
    }
    post_webhook(url_file, json.dumps(body).encode())
