"""`/metrics`: the farm's numbers in Prometheus' text format.

A scrape is one look at the tracker and the records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fastapi import APIRouter
from starlette.responses import PlainTextResponse

from rpc_server.wire.tracker_messages import FarmNumbers
from tracker.farm_parts import DeviceState
from tuner.records.model import Run
from webui.context import Ctx
from webui.fleet import FleetView

router = APIRouter(include_in_schema=False)

_NEWEST_RUNS = 50
_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Metric:
    """One family.
    Its name, kind (gauge or counter) and help are documented in docs/farm.md, which a test checks."""

    name: str
    kind: str
    help: str

    def text(self, samples: Iterable[tuple[Labels, float]]) -> str:
        lines = [f"# HELP {self.name} {self.help}", f"# TYPE {self.name} {self.kind}"]
        for labels, value in samples:
            inner = ",".join(f'{name}="{_escaped(word)}"' for name, word in labels)
            lines.append(f"{self.name}{{{inner}}} {value:.12g}" if inner else f"{self.name} {value:.12g}")
        return "\n".join(lines) + "\n"


UP = Metric("tunefarm_tracker_up", "gauge", "1 when the tracker answers, 0 when it does not.")
UPTIME = Metric("tunefarm_tracker_uptime_seconds", "gauge", "Seconds since the tracker started.")
DEVICES = Metric("tunefarm_devices", "gauge", "Devices by key and state.")
BUSY = Metric("tunefarm_device_busy_ratio", "gauge", "Share of the time since it registered that a device was lent.")
CHECK = Metric("tunefarm_device_check_passed", "gauge", "1 when a device passed its last health check, else 0.")
COMPUTE = Metric("tunefarm_device_check_gflops", "gauge", "GFLOP/s of one core in a device's last health check.")
MEMORY = Metric("tunefarm_device_check_gigabytes_per_second", "gauge", "GB/s of memory in the last health check.")
LEASES = Metric("tunefarm_leases", "gauge", "Leases now, offered and ending ones too.")
CLIENTS = Metric("tunefarm_clients", "gauge", "Clients that hold or wait for something.")
WAITING = Metric("tunefarm_requests_waiting", "gauge", "Requests in the queue, by expression.")
OLDEST = Metric("tunefarm_request_oldest_wait_seconds", "gauge", "How long the first of them has waited.")
GRANTS = Metric("tunefarm_grants_total", "counter", "Grants by expression; of the last hundred expressions.")
WAITED = Metric("tunefarm_grant_wait_seconds_total", "counter", "Seconds that granted requests had waited.")
EVENTS = Metric("tunefarm_tracker_events_total", "counter", "Events by kind, as in the tracker's log.")
TRIALS = Metric("tunefarm_run_trials", "gauge", "Trials of each running tuning run.")
FAILED = Metric("tunefarm_run_trials_failed", "gauge", "Failed trials of each running tuning run.")

METRICS = (
    UP, UPTIME, DEVICES, BUSY, CHECK, COMPUTE, MEMORY, LEASES, CLIENTS, WAITING, OLDEST, GRANTS, WAITED, EVENTS,
    TRIALS, FAILED,
)  # fmt: skip


@router.get("/metrics")
def metrics(context: Ctx) -> PlainTextResponse:
    """Everything known, now. Without a tracker: the runs alone."""
    runs = [run for run in context.store.runs.newest(limit=_NEWEST_RUNS) if not run.state.ended]
    view = context.fleet.view() if context.fleet.tracked else None
    return PlainTextResponse(exposition(view, runs), media_type=_CONTENT_TYPE)


def exposition(view: FleetView | None, runs: Sequence[Run]) -> str:
    """The page for a fleet (None: there is no tracker) and the runs going on."""
    text = ""
    if view is not None:
        up = view.source == "tracker" and not view.problem
        text += UP.text([((), float(up))])
        if up:
            text += _fleet(view)
            text += _tracker(view.numbers) if view.numbers is not None else ""
    text += TRIALS.text(((("run", str(run.id)),), run.trials) for run in runs)
    return text + FAILED.text(((("run", str(run.id)),), run.failed) for run in runs)


def _fleet(view: FleetView) -> str:
    states = Counter((device.key, device.state) for device in view.devices)
    keys = sorted({device.key for device in view.devices})
    devices = [
        ((("key", key), ("state", str(state))), states[key, str(state)]) for key in keys for state in DeviceState
    ]
    checks = [((("device", d.name),), d.check) for d in view.devices if d.check is not None]
    scores = [(labels, check.scores) for labels, check in checks if check.scores is not None]
    busy = [((("device", d.name),), d.busy_share) for d in view.devices if d.busy_share is not None]
    return (
        DEVICES.text(devices)
        + BUSY.text(busy)
        + CHECK.text((labels, float(check.passed)) for labels, check in checks)
        + COMPUTE.text((labels, score.compute) for labels, score in scores)
        + MEMORY.text((labels, score.memory) for labels, score in scores)
    )


def _tracker(numbers: FarmNumbers) -> str:
    queues = [((("expr", queue.expr),), queue) for queue in numbers.queues]
    return (
        UPTIME.text([((), numbers.uptime_s)])
        + LEASES.text([((), numbers.leases)])
        + CLIENTS.text([((), numbers.clients)])
        + WAITING.text((labels, queue.waiting) for labels, queue in queues)
        + OLDEST.text((labels, queue.oldest_s) for labels, queue in queues)
        + GRANTS.text((labels, queue.granted) for labels, queue in queues)
        + WAITED.text((labels, queue.waited_s) for labels, queue in queues)
        + EVENTS.text(((("kind", kind),), count) for kind, count in sorted(numbers.events.items()))
    )


def _escaped(word: str) -> str:
    return word.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
