"""Makes a record store with millions of trials: the rows a tuner writes, put into the database directly."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import Engine, text

from compiler.target import Target
from tuner.options import RunOptions
from tuner.records.database import connect, parse_url, writing
from tuner.records.incumbent import elect_best
from tuner.records.keys import toolchain_key
from tuner.records.model import NewDevice, NewRun, NewRunTask, NewWorkload, Run, RunState
from tuner.records.store import RecordStore
from tuner.search.plan import sketch_search
from tuner.task import TuningTask
from tuner.toolchain import toolchain

CLASS = "zen3/8t"
SERVED_CLASS = "zen3/16t"
"""Declared to take the configs of CLASS."""
A_RUN = 1000
SHORT_TRACE = 300
"""Bytes of a trace that nobody will read: only candidates that were the best of their run so far have a whole one."""
_RUNS_A_WORKLOAD = 10
_CHUNK = 20_000

_KEYS = "id, workload_id, target_id, device_class_id, toolchain"
_CANDIDATES = "id, workload_id, target_id, digest, trace"
_TRIALS = (
    "id, run_id, sequence, task_id, key_id, candidate_id, device_id, purpose, status, failure_kind, failure_text,"
    " samples, cost, mad, noise, verified, eligible, improved, build_s, measure_s, environment, measured_by,"
    " started_at, finished_at"
)


@dataclass(frozen=True)
class Contents:
    """What the store is filled with. The first run is of `tasks[0]`, with candidates of its own space."""

    target: str = field(default_factory=lambda: str(Target.host()))

    def tasks(self, trials: int) -> list[TuningTask]:
        """Matmuls of many sizes: one for each ten thousand trials, a hundred at least."""
        count = max(100, trials // (A_RUN * _RUNS_A_WORKLOAD))
        return [TuningTask.from_spec(self.spec(number), self.target) for number in range(count)]

    @staticmethod
    def spec(number: int) -> str:
        """Of the `number`-th workload; those with numbers that were not used were never tuned."""
        return f"matmul:{64 + 16 * (number % 10)},{64 + 16 * (number // 10 % 10)},{64 + 16 * (number // 100)}"


def fill(address: str, contents: Contents, trials: int) -> None:
    """Runs of a thousand trials over all workloads in turn, every twentieth trial failed, and one run of a twentieth
    of all trials. Says how it gets on."""
    tasks = contents.tasks(trials)
    long_run = trials // 20
    sizes = [min(A_RUN, trials - long_run - at) for at in range(0, trials - long_run, A_RUN)] + [long_run]
    with RecordStore.open(address) as store:
        device = store.upsert_device(NewDevice(name="box", key="cpu", device_class=CLASS)).id
        store.upsert_device(NewDevice(name="box-16", key="cpu", device_class=SERVED_CLASS))
        store.declare_compatible(SERVED_CLASS, [CLASS])
        runs = [_start(store, tasks[number % len(tasks)]) for number in range(len(sizes))]
        for run in runs:
            store.set_run_state(run.id, RunState.INTERRUPTED)
        target = store.targets(1)[0].id
    engine = connect(parse_url(address))
    rows = _Rows(engine, target, device, _own_traces(tasks[0]))
    workloads = sorted({run.tasks[0].workload.id for run in runs})
    keys = [(workload, workload, target, 1, toolchain_key(toolchain())) for workload in workloads]
    rows.add("tuning_keys", _KEYS, keys)
    progress = _Progress(trials)
    for run, size in zip(runs, sizes):
        rows.fill_run(run, size)
        progress.say(rows.last_trial)
    rows.close()
    _finish(engine, workloads)
    engine.dispose()


def _finish(engine: Engine, keys: Sequence[int]) -> None:
    with writing(engine) as connection:
        if engine.dialect.name == "postgresql":  # ids were given here, not by its sequences
            for table in ("trials", "candidates", "tuning_keys"):
                top = f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), (SELECT max(id) FROM {table}))"
                connection.execute(text(top))
        for key in keys:
            elect_best(connection, key, None)
    if engine.dialect.name == "postgresql":  # which its daemon does by itself, some time later; SQLite never does
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("VACUUM ANALYZE"))


def _start(store: RecordStore, task: TuningTask) -> Run:
    spec = None if task.spec is None else task.spec.to_json()
    new = NewWorkload(key=task.key, name=task.name, spec=spec, function=task.func.script(), flops=task.flops)
    workload = store.upsert_workload(new)
    row = NewRunTask(workload_id=workload.id, target_id=store.upsert_target(str(task.target)).id, budget=2 * A_RUN)
    options = RunOptions(trials=2 * A_RUN).to_json()
    return store.start_run(NewRun(tasks=(row,), toolchain=toolchain(), name=task.name, options=options))


def _own_traces(task: TuningTask) -> list[tuple[str, str]]:
    """Digests and traces of candidates of the task's space."""
    return [(c.digest, c.trace_json) for c in sketch_search(task, "random").strategy.ask(A_RUN)]


class _Rows:
    """Puts many rows into a database as fast as it takes them."""

    def __init__(self, engine: Engine, target: int, device: int, traces: list[tuple[str, str]]) -> None:
        self._raw = engine.raw_connection()
        self._sqlite = engine.dialect.name == "sqlite"
        self._target, self._device, self._traces = target, device, traces
        self.last_trial = 0
        for setting in ("synchronous = OFF", "cache_size = -2000000") if self._sqlite else ():
            self._run(f"PRAGMA {setting}")

    def _run(self, statement: str) -> None:
        self._raw.cursor().execute(statement)
        self._raw.commit()

    def add(self, table: str, columns: str, rows: Sequence[tuple[object, ...]]) -> None:
        cursor = self._raw.cursor()
        if self._sqlite:
            cursor.execute("BEGIN")
            cursor.executemany(f"INSERT INTO {table} ({columns}) VALUES ({','.join('?' * len(rows[0]))})", rows)
        else:
            with cursor.copy(f"COPY {table} ({columns}) FROM STDIN") as copy:  # type: ignore[attr-defined]
                for row in rows:
                    copy.write_row(row)
        self._raw.commit()

    def close(self) -> None:
        self._raw.close()

    def fill_run(self, run: Run, count: int) -> None:
        rng = random.Random(run.id)
        [task] = run.tasks
        best = float("inf")
        for start in range(0, count, _CHUNK):
            best = self._part(run, range(start, min(start + _CHUNK, count)), best, rng)
        done = f"trials = {count}, failed = {count // 20}"
        self._run(f"UPDATE runs SET sequence = {count}, {done} WHERE id = {run.id}")
        self._run(f"UPDATE run_tasks SET {done}, best_cost = {best!r}, baseline_cost = 5e-3 WHERE id = {task.id}")

    def _part(self, run: Run, numbers: range, best: float, rng: random.Random) -> float:
        """Trials with these numbers in the run, from 0; returns the best cost so far."""
        [task] = run.tasks
        workload, first = task.workload.id, self.last_trial + 1
        candidates: list[tuple[object, ...]] = []
        trials: list[tuple[object, ...]] = []
        for number, i in enumerate(numbers, first):
            digest, trace = self._traces[i % len(self._traces)]
            failed = i % 20 == 19
            cost = None if failed else 1e-3 * rng.lognormvariate(0, 0.5)
            improved = cost is not None and cost < best
            best = min(best, cost or best)
            name = digest if run.id == 1 else f"{number:032x}"
            kept = trace if improved or run.id == 1 else trace[:SHORT_TRACE]
            candidates.append((number, workload, self._target, name, kept))
            samples = "[]" if cost is None else f"[{cost!r}, {cost * 1.01!r}, {cost * 0.99!r}]"
            what = (number, run.id, i + 1, task.id, workload, number, self._device, "search")
            failure = ("failed", "crash", "SIGSEGV") if failed else ("ok", None, "")
            numbers_ = (samples, cost, None if failed else 1e-5, "[]", not failed, not failed, improved, 0.05, 0.1)
            when = _at(number)
            trials.append((*what, *failure, *numbers_, '{"load_1m": 0.5}', "", when, when))
        self.add("candidates", _CANDIDATES, candidates)
        self.add("trials", _TRIALS, trials)
        self.last_trial += len(numbers)
        return best


def _at(number: int) -> str:
    return (datetime(2026, 1, 1) + timedelta(seconds=number)).isoformat(" ", "microseconds")


@dataclass
class _Progress:
    """A line each ten seconds."""

    trials: int
    began: float = field(default_factory=time.perf_counter)
    said: float = 0.0

    def say(self, done: int) -> None:
        took = time.perf_counter() - self.began
        if took - self.said >= 10:
            self.said = took
            print(f"  {done:,} of {self.trials:,} trials, {done / took:,.0f} a second", flush=True)
