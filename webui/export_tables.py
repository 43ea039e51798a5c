"""The tables of `/export`: the rows of each, read a page of the store at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from compiler.runtime.measure.statistics import Interval
from tuner.bench.history import lines_of
from tuner.bench.report import as_json as as_row
from tuner.goals import Goal
from tuner.records.farm.model_farm import BenchResult
from tuner.records.model import Run, Trial
from tuner.records.paging import all_pages
from tuner.records.run_pairs import pairs_of
from tuner.records.store import RecordStore
from webui.context import Context
from webui.errors import BadRequest
from webui.pages.compare import chosen_in
from webui.pages.devices import task_names
from webui.pages.releases import changes_of

_PAGE = 1000

Row = Mapping[str, Any]
Table = Literal[
    "runs", "trials", "best", "workloads", "devices", "queues", "events", "device-trials", "device-benchmarks",
    "benchmark-runs", "benchmarks", "series", "releases", "release", "release-diff", "choices", "compared",
]  # fmt: skip


@dataclass(frozen=True)
class Filters:
    run: int | None = None
    workload: str | None = None
    target: str | None = None
    device_class: str | None = None
    device: str | None = None
    kernel: str | None = None
    release: str | None = None
    old: str | None = None
    objective: Goal = Goal.TIME
    other: int | None = None
    task: int = 0

    def needed(self, name: str) -> str:
        """Raise BadRequest without it."""
        value: str | None = getattr(self, name)
        if value is None:
            raise BadRequest(f"say which {name}")
        return value


def _runs(context: Context, filters: Filters) -> Iterator[Row]:
    """A row a workload; of one run when it is given."""
    runs = _every_run(context.store) if filters.run is None else iter([context.store.runs.get(filters.run)])
    for run in runs:
        for task in run.tasks:
            yield {
                "run": run.id,
                "state": str(run.state),
                "user": run.user,
                "host": run.host,
                "started_at": run.started_at,
                "finished_at": run.finished_at,
                "workload": task.workload.name,
                "workload_key": task.workload.key,
                "target": task.target,
                "budget": task.budget,
                "trials": task.trials,
                "failed": task.failed,
                "untuned_s": task.baseline_cost,
                "best_s": task.best_cost,
                "flops": task.workload.flops,
                "run_held_s": run.use.held_s,
                "run_busy_s": run.use.busy_s,
            }


def _every_run(store: RecordStore) -> Iterator[Run]:
    return all_pages(lambda before: store.runs.newest(_PAGE, before))


def _trials(context: Context, filters: Filters) -> Iterator[Row]:
    if filters.run is None:
        raise BadRequest("say which run's trials: /export/trials.csv?run=7")
    run_id = context.store.runs.get(filters.run).id
    names = {task.id: task.workload.name for task in context.store.runs.get(run_id).tasks}
    return (_trial(trial, names) for trial in _every_trial(context.store, run_id))


def _every_trial(store: RecordStore, run_id: int) -> Iterator[Trial]:
    return all_pages(
        lambda after: store.trials.page(run_id, after, _PAGE, with_trace=False), 0, lambda trial: trial.sequence
    )


def _trial(trial: Trial, names: Mapping[int, str]) -> Row:
    return {
        "trial": trial.id,
        "sequence": trial.sequence,
        "workload": names[trial.task_id],
        "purpose": str(trial.purpose),
        "status": str(trial.status),
        "failure": None if trial.failure is None else str(trial.failure),
        "time_s": trial.cost,
        "mad_s": trial.mad,
        "verified": trial.verified,
        "best_so_far": trial.improved,
        "noise": " ".join(trial.noise),
        "device": trial.device,
        "device_class": trial.device_class,
        "build_s": trial.build_s,
        "measure_s": trial.measure_s,
        "started_at": trial.started_at,
        "finished_at": trial.finished_at,
        "digest": trial.digest,
        "failure_text": trial.failure_text,
    }


def _best(context: Context, filters: Filters) -> Iterator[Row]:
    def read(after: int) -> tuple[Any, ...]:
        return context.store.best.page(
            after,
            _PAGE,
            workload=filters.workload,
            target=filters.target,
            device_class=filters.device_class,
            goal=filters.objective,
        )

    for config in all_pages(read, 0):
        yield {
            "config": config.id,
            "workload": config.workload_name,
            "workload_key": config.workload_key,
            "target": config.target,
            "device_class": config.device_class,
            "toolchain": config.toolchain,
            "time_s": config.cost,
            "low_s": config.low,
            "high_s": config.high,
            "untuned_s": config.untuned,
            "baseline": config.baseline,
            "joules": config.joules,
            "flops": config.flops,
            "run": config.run_id,
            "trial": config.trial_id,
            "device": config.device,
            "since": config.since,
            "digest": config.digest,
        }


def _workloads(context: Context, _: Filters) -> Iterator[Row]:
    for found in all_pages(lambda after: context.store.workloads.page(after, _PAGE), 0):
        yield {"key": found.key, "name": found.name, "flops": found.flops, "created_at": found.created_at}


def _devices(context: Context, _: Filters) -> Iterator[Row]:
    for device in context.fleet.view().devices:
        yield {
            "device": device.name,
            "state": device.state,
            "reason": device.reason,
            "key": device.key,
            "address": device.address,
            "device_class": device.device_class,
            "cpu": device.cpu,
            "cores": device.cores,
            "user": device.user,
            "busy_share": device.busy_share,
            "seen_at": device.seen_at,
        }


def _queues(context: Context, _: Filters) -> Iterator[Row]:
    numbers = context.fleet.view().numbers
    for queue in () if numbers is None else numbers.queues:
        yield {
            "request": queue.expr,
            "waiting": queue.waiting,
            "oldest_s": queue.oldest_s,
            "granted": queue.granted,
            "waited_s": queue.waited_s,
        }


def _events(context: Context, filters: Filters) -> Iterator[Row]:
    for event in context.store.devices.events(filters.needed("device"), _PAGE):
        yield {
            "device": event.device,
            "kind": str(event.kind),
            "at": event.at,
            "in_doubt_since": event.since,
            "compute": event.data.get("compute"),
            "memory": event.data.get("memory"),
            "message": event.message,
        }


def _device_trials(context: Context, filters: Filters) -> Iterator[Row]:
    """The last thousand."""
    trials = context.store.devices.trials(filters.needed("device"), _PAGE)
    names = {task: name for task, (name, _) in task_names(context.store, trials).items()}
    return ({"run": trial.run_id, **_trial(trial, names)} for trial in trials)


def _device_benchmarks(context: Context, filters: Filters) -> Iterator[Row]:
    return map(_bench_result, context.store.devices.benchmarks(filters.needed("device")))


def _series(context: Context, filters: Filters) -> Iterator[Row]:
    kernel, device = filters.needed("kernel"), filters.needed("device")
    return map(_bench_result, context.store.benches.series(kernel, device, _PAGE))


def _bench_result(result: BenchResult) -> Row:
    return {
        "benchmark": result.run_id,
        "kernel": result.kernel,
        "device": result.device,
        "device_class": result.device_class,
        "target": result.target,
        "time_s": result.cost,
        "low_s": result.low,
        "high_s": result.high,
        "calibration_s": result.calibration,
        "config": result.config_digest,
        "failure": result.failure,
        "noise": " ".join(result.noise),
        "toolchain": result.toolchain,
        "measured_at": result.measured_at,
    }


def _benchmark_runs(context: Context, _: Filters) -> Iterator[Row]:
    for run in all_pages(lambda before: context.store.benches.newest(_PAGE, before)):
        yield {
            "benchmark": run.id,
            "suite": run.suite,
            "state": run.state,
            "devices": run.devices,
            "results": run.results,
            "failed": run.failed,
            "user": run.user,
            "host": run.host,
            "started_at": run.started_at,
            "finished_at": run.finished_at,
        }


def _releases(context: Context, _: Filters) -> Iterator[Row]:
    for release in all_pages(lambda before: context.store.releases.newest(_PAGE, before)):
        yield {
            "release": release.name,
            "note": release.note,
            "configs": release.entry_count,
            "digest": release.digest,
            "created_by": release.created_by,
            "created_at": release.created_at,
            "approved_by": release.approved_by,
            "approved_at": release.approved_at,
        }


def _release(context: Context, filters: Filters) -> Iterator[Row]:
    for entry in context.store.releases.entries(filters.needed("release")):
        yield {
            "workload": entry.workload_name,
            "workload_key": entry.workload_key,
            "target": entry.target,
            "device_class": entry.device_class,
            "toolchain": entry.toolchain,
            "time_s": entry.cost,
            "low_s": entry.low,
            "high_s": entry.high,
            "samples": entry.sample_count,
            "flops": entry.flops,
            "device": entry.device,
            "digest": entry.digest,
        }


def _release_diff(context: Context, filters: Filters) -> Iterator[Row]:
    diff = context.store.releases.diff(filters.needed("old"), filters.needed("release"))
    for what, before, after in changes_of(diff):
        entry = after or before
        assert entry is not None
        yield {
            "workload": entry.workload_name,
            "workload_key": entry.workload_key,
            "target": entry.target,
            "device_class": entry.device_class,
            "what": what,
            "old_s": None if before is None else before.cost,
            "new_s": None if after is None else after.cost,
        }


_INTERVAL: tuple[tuple[str, Callable[[Interval], float]], ...] = (
    ("", lambda best: best.median),
    ("low_", lambda best: best.low),
    ("high_", lambda best: best.high),
)


def _compared(context: Context, filters: Filters) -> Iterator[Row]:
    if filters.run is None or filters.other is None:
        raise BadRequest("say which runs: /export/compared.csv?run=7&other=8")
    for pair in pairs_of(context.store, context.store.runs.get(filters.run), context.store.runs.get(filters.other)):
        row: dict[str, Any] = {"workload": pair.name, "target": pair.target, "flops": pair.flops}
        for name, side in (("a", pair.a), ("b", pair.b)):
            best = None if side is None else side.best
            row |= {f"{name}_{part}s": best and value(best) for part, value in _INTERVAL}
        yield {**row, "b_is": pair.verdict and str(pair.verdict)}


def _choices(context: Context, filters: Filters) -> Iterator[Row]:
    if filters.run is None:
        raise BadRequest("say which run's choices: /export/choices.csv?run=7")
    for choice in chosen_in(context.store, filters.run, filters.task).choices:
        yield {
            "choice": choice.label,
            "explains": choice.importance,
            "fastest_chose": choice.best,
            "fastest_tenth_chose": " ".join(map(str, choice.good)),
            "tried": " ".join(map(str, choice.values)),
        }


def _benchmarks(context: Context, filters: Filters) -> Iterator[Row]:
    if filters.run is None:
        raise BadRequest("say which benchmark's results: /export/benchmarks.csv?run=7")
    run = context.store.benches.get(filters.run)
    return (as_row(line) for line in lines_of(context.store, run))


TABLES: dict[Table, Callable[[Context, Filters], Iterator[Row]]] = {
    "runs": _runs,
    "trials": _trials,
    "best": _best,
    "workloads": _workloads,
    "devices": _devices,
    "queues": _queues,
    "events": _events,
    "device-trials": _device_trials,
    "device-benchmarks": _device_benchmarks,
    "benchmark-runs": _benchmark_runs,
    "benchmarks": _benchmarks,
    "series": _series,
    "releases": _releases,
    "release": _release,
    "release-diff": _release_diff,
    "choices": _choices,
    "compared": _compared,
}
