"""The record store with a million trials: opening it, taking up a run, looking a best config up, adding trials.

    python benchmarks/store.py
    python benchmarks/store.py --trials 1000000 --keep /tmp/million.db

The rows are those a tuner writes (a run of 1,000 trials for each of 100 workloads, ten times over, every twentieth
trial failed), put into SQLite directly, since writing them as a tuner does would take an hour. Resuming reads a run's
trials back, makes its candidates again from their traces and tells the search. Best of `--repeat`; medians for the
calls that take less than a millisecond.
"""

from __future__ import annotations

import argparse
import random
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from compiler.target import Target
from tuner.ledger import Ledger
from tuner.options import RunOptions
from tuner.records.database import connect, parse_url, writing
from tuner.records.incumbent import elect_best
from tuner.records.keys import toolchain_key
from tuner.records.model import NewDevice, NewRun, NewRunTask, NewTrial, NewWorkload, Run, RunState
from tuner.records.store import RecordStore
from tuner.search.plan import sketch_search
from tuner.task import TuningTask
from tuner.toolchain import toolchain

_WORKLOADS = 100
_A_RUN = 1000
_CLASS = "zen3/8t"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--keep", type=Path, help="make the store here, or use the one that is there")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = args.keep or Path(folder, "records.db")
        task = TuningTask.from_spec("matmul:64,64,64", str(Target.host()))
        if not path.exists():
            began = time.perf_counter()
            fill(path, task, args.trials)
            print(f"{args.trials:,} trials made in {time.perf_counter() - began:.0f} s")
        print(f"{path.stat().st_size / 1e6:,.0f} MB")
        for name, seconds in measure(path, task, args.repeat):
            print(f"{name:44}{seconds * 1e3:12.3f} ms", flush=True)


# -------------------------------------------------------------------------------------- filling


def fill(path: Path, task: TuningTask, trials: int) -> None:
    """A store with so many trials; the first run is of `task`, with candidates of its own space."""
    with RecordStore.open(path, create=True) as store:
        device = store.upsert_device(NewDevice(name="box", key="cpu", device_class=_CLASS)).id
        runs = [start(store, task, number) for number in range(-(-trials // _A_RUN))]
        for run in runs:
            store.set_run_state(run.id, RunState.INTERRUPTED)
    raw = sqlite3.connect(path)
    raw.execute("PRAGMA synchronous = OFF")
    target = raw.execute("SELECT id FROM targets").fetchone()[0]
    device_class = raw.execute("SELECT id FROM device_classes").fetchone()[0]
    key = toolchain_key(toolchain())
    with raw:
        for workload in {run.tasks[0].workload.id for run in runs}:
            values = (workload, workload, target, device_class, key)
            raw.execute("INSERT INTO tuning_keys VALUES (?, ?, ?, ?, ?)", values)
        traces = own_traces(task)
        left = trials
        for run in runs:
            fill_run(raw, run, target, device, min(left, _A_RUN), traces)
            left -= _A_RUN
    raw.close()
    engine = connect(parse_url(path))
    for workload in {run.tasks[0].workload.id for run in runs}:
        with writing(engine) as connection:
            elect_best(connection, workload, None)
    engine.dispose()


def start(store: RecordStore, task: TuningTask, number: int) -> Run:
    own = number % _WORKLOADS == 0
    key = task.key if own else f"{number % _WORKLOADS:064x}"
    text = task.func.script()
    workload = store.upsert_workload(NewWorkload(key=key, name=task.name, function=text, flops=task.flops))
    target = store.upsert_target(str(task.target))
    row = NewRunTask(workload_id=workload.id, target_id=target.id, budget=2 * _A_RUN)
    options = RunOptions(trials=2 * _A_RUN).to_json()
    return store.start_run(NewRun(tasks=(row,), toolchain=toolchain(), name=task.name, options=options))


def own_traces(task: TuningTask) -> list[tuple[str, str]]:
    """Digests and traces of candidates of the task's space."""
    return [(c.digest, c.trace_json) for c in sketch_search(task, "random").strategy.ask(_A_RUN)]


def fill_run(
    raw: sqlite3.Connection, run: Run, target: int, device: int, count: int, traces: list[tuple[str, str]]
) -> None:
    rng = random.Random(run.id)
    [row] = run.tasks
    first: int = raw.execute("SELECT coalesce(max(id), 0) FROM trials").fetchone()[0] + 1
    candidates, trials, best = [], [], float("inf")
    for i in range(count):
        digest, trace = traces[i % len(traces)]
        number = first + i
        name = digest if run.id == 1 else f"{number:032x}"
        candidates.append((number, row.workload.id, target, name, trace))
        failed = i % 20 == 19
        cost = None if failed else 1e-3 * rng.lognormvariate(0, 0.5)
        improved = cost is not None and cost < best
        best = min(best, cost or best)
        samples = "[]" if cost is None else f"[{cost!r}, {cost * 1.01!r}, {cost * 0.99!r}]"
        what = (number, run.id, i + 1, row.id, row.workload.id, number, device, "search")
        failure = ("failed", "crash", "SIGSEGV") if failed else ("ok", None, "")
        numbers = (samples, cost, None if failed else 1e-5, "[]", not failed, not failed, improved, 0.05, 0.1)
        trials.append((*what, *failure, *numbers, '{"load_1m": 0.5}', "", _at(number), _at(number)))
    raw.executemany("INSERT INTO candidates (id, workload_id, target_id, digest, trace) VALUES (?,?,?,?,?)", candidates)
    columns = (
        "id, run_id, sequence, task_id, key_id, candidate_id, device_id, purpose, status, failure_kind, failure_text,"
        " samples, cost, mad, noise, verified, eligible, improved, build_s, measure_s, environment, measured_by,"
        " started_at, finished_at"
    )
    raw.executemany(f"INSERT INTO trials ({columns}) VALUES ({','.join('?' * 24)})", trials)
    counts = (count, count, count // 20, run.id)
    raw.execute("UPDATE runs SET sequence = ?, trials = ?, failed = ? WHERE id = ?", counts)
    values = (count, count // 20, best, 5e-3, row.id)
    raw.execute("UPDATE run_tasks SET trials = ?, failed = ?, best_cost = ?, baseline_cost = ? WHERE id = ?", values)


def _at(number: int) -> str:
    return (datetime(2026, 1, 1) + timedelta(seconds=number)).isoformat(" ", "microseconds")


# ------------------------------------------------------------------------------------ measuring


def measure(path: Path, task: TuningTask, repeat: int) -> Iterator[tuple[str, float]]:
    """What is done, and how many seconds it takes."""
    yield "open the store", least(lambda: RecordStore.open(path).close(), repeat)
    with RecordStore.open(path) as store:
        yield f"resume a run of {store.run(1).trials:,} trials", least(lambda: resume(store, task), repeat)
        target = str(task.target)
        yield "best config, exact", median(lambda: store.best(task.key, target, _CLASS))
        yield "best config, a miss explained", median(lambda: store.best("f" * 64, target, _CLASS))
        yield "a page of 100 trials", median(lambda: store.trials(1, after=500, limit=100, with_trace=False))
        run = store.run(2)
        number = iter(range(10**9))
        yield "claim a candidate", median(lambda: store.claim(run.tasks[0].id, 1, [f"new-{next(number)}"]))
        trial = NewTrial(task_id=run.tasks[0].id, device_id=1, samples=(1.0, 1.0), verified=True, trace="[]")
        yield "add a trial", median(lambda: store.add_trial(replace(trial, digest=f"new-{next(number)}")))


def resume(store: RecordStore, task: TuningTask) -> None:
    """Take the first run up as a tuner does, and tell the search all of it."""
    search = sketch_search(task, "evolutionary")
    ledger = Ledger.resume(store, 1, [task])
    [(_, trials)] = ledger.restored([search])
    for trial in trials:
        assert trial.candidate is not None
        search.strategy.tell(trial.candidate, trial.cost)
    ledger.interrupt("measured")


def least(action: Callable[[], object], repeat: int) -> float:
    return min(timed(action) for _ in range(repeat))


def median(action: Callable[[], object], repeat: int = 200) -> float:
    return statistics.median(timed(action) for _ in range(repeat))


def timed(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
