"""Makes a record store with millions of trials: the rows a tuner writes, made by the database itself from some hundred
thousand rows that are given to it."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Engine, text

from compiler.target.target import Target
from tuner.engine.options import RunOptions
from tuner.engine.plan import sketch_search
from tuner.records.db.database import connect, parse_url, writing
from tuner.records.db.schema import RunRow, RunTaskRow
from tuner.records.lookup.incumbent import elect_best
from tuner.records.lookup.keys import toolchain_key
from tuner.records.model import NewDevice, NewRun, NewRunTask, NewWorkload, Run, RunState
from tuner.records.store import RecordStore
from tuner.task import TuningTask
from tuner.toolchain import toolchain

CLASS = "zen3/8t"
SERVED_CLASS = "zen3/16t"
"""Declared to take the configs of CLASS."""
A_RUN = 1000
SHORT_TRACE = 300
"""Bytes of a trace that nobody will read: only candidates that were the best of their run so far have a whole one."""
_RUNS_A_WORKLOAD = 10
_PATTERNS = 100
"""How many runs of different times there are; later ones repeat them."""
_LONG = 20
"""One run has this part of all trials."""
_BEGAN = datetime(2026, 1, 1, tzinfo=UTC)

_TRIALS = (
    "id, run_id, sequence, task_id, key_id, candidate_id, device_id, purpose, status, failure_kind, failure_text,"
    " samples, cost, mad, noise, verified, eligible, improved, build_s, measure_s, environment, measured_by,"
    " started_at, finished_at"
)


@dataclass(frozen=True)
class Contents:
    """The content of the store: matmuls of many sizes, the first of which has candidates of its own space."""

    target: str = field(default_factory=lambda: str(Target.host()))

    def tasks(self, trials: int) -> list[TuningTask]:
        """One for each ten thousand trials, a hundred at least where there are as many runs."""
        count = max(min(100, _runs(trials)), trials // (A_RUN * _RUNS_A_WORKLOAD))
        return [TuningTask.from_spec(self.spec(number), self.target) for number in range(count)]

    @staticmethod
    def spec(number: int) -> str:
        """Return the text of the `number`-th workload."""
        return f"matmul:{64 + 16 * (number % 10)},{64 + 16 * (number // 10 % 10)},{64 + 16 * (number // 100)}"


def fill(address: str, contents: Contents, trials: int) -> None:
    """Runs of a thousand trials over all workloads in turn, every twentieth trial failed, and one run of a twentieth
    of all trials. Says how it gets on."""
    tasks = contents.tasks(trials)
    with RecordStore.open(address) as store:
        device = store.devices.upsert(NewDevice(name="box", key="cpu", device_class=CLASS)).id
        store.devices.upsert(NewDevice(name="box-16", key="cpu", device_class=SERVED_CLASS))
        store.devices.declare_compatible(SERVED_CLASS, [CLASS])
        firsts = [_start(store, task) for task in tasks]
        for run in firsts:
            store.runs.set_state(run.id, RunState.INTERRUPTED)
        target = store.targets.page(1)[0].id
    engine = connect(parse_url(address))
    with engine.connect() as connection:
        filler = _Filler(connection, target, device)
        filler.set_up(tasks[0])
        long_run = trials // _LONG
        runs = filler.runs(firsts, _runs(trials))
        progress = _Progress(trials)
        for number, run in enumerate(runs, 1):
            left = trials - long_run - (number - 1) * A_RUN
            filler.fill_run(run, long_run if left <= 0 else min(A_RUN, left))
            progress.say(filler.last_trial)
        filler.finish()
    _elect(engine, [run.tasks[0].workload.id for run in firsts])
    engine.dispose()


def _runs(trials: int) -> int:
    return -(-(trials - trials // _LONG) // A_RUN) + 1


def _start(store: RecordStore, task: TuningTask) -> Run:
    spec = None if task.spec is None else task.spec.to_json()
    new = NewWorkload(key=task.key, name=task.name, spec=spec, function=task.func.script(), flops=task.flops)
    workload = store.workloads.upsert(new)
    row = NewRunTask(workload_id=workload.id, target_id=store.targets.upsert(str(task.target)).id, budget=2 * A_RUN)
    options = RunOptions(trials=2 * A_RUN).to_json()
    return store.runs.start(NewRun(tasks=(row,), toolchain=toolchain(), name=task.name, options=options))


def _elect(engine: Engine, keys: list[int]) -> None:
    with writing(engine) as connection:
        for key in keys:
            elect_best(connection, key, None)
    if engine.dialect.name == "postgresql":  # which its daemon does by itself, some time later; SQLite never does
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("VACUUM ANALYZE"))


@dataclass
class _Run:
    """By id: a run of one task, and the workload of that."""

    id: int
    task: int
    workload: int


class _Filler:
    """Fills a store over one connection of its own."""

    def __init__(self, connection: Connection, target: int, device: int) -> None:
        self._connection = connection
        self._sqlite = connection.dialect.name == "sqlite"
        self._target, self._device = target, device
        self.last_trial = 0

    def _execute(self, statement: str, rows: Any = None) -> None:
        self._connection.execute(text(statement), rows)

    def set_up(self, first: TuningTask) -> None:
        if self._sqlite:
            for setting in ("synchronous = OFF", "cache_size = -1000000", "foreign_keys = OFF", "temp_store = MEMORY"):
                cursor = self._connection.connection.cursor()
                self._connection.rollback()
                cursor.execute(f"PRAGMA {setting}")
        else:
            self._execute("SET synchronous_commit = off")
            self._execute("SET session_replication_role = replica")  # no look at what each row refers to
        kind, number = ("text", "integer") if self._sqlite else ("json", "bigint")
        self._execute(
            f"CREATE TEMP TABLE pattern (nr {number}, i {number}, cost double precision, samples {kind}, ok boolean,"
            f" improved boolean, PRIMARY KEY (nr, i))"
        )
        self._execute("CREATE TEMP TABLE own (i integer PRIMARY KEY, digest text, trace text)")
        for pattern in range(_PATTERNS):
            self._execute(
                "INSERT INTO pattern VALUES (:nr, :i, :cost, :samples, :ok, :improved)", list(_pattern(pattern))
            )
        own = sketch_search(first, "random").strategy.ask(A_RUN)
        self._execute(
            "INSERT INTO own VALUES (:i, :digest, :trace)",
            [{"i": i, "digest": c.digest, "trace": c.trace_json} for i, c in enumerate(own)],
        )
        self._connection.commit()

    def runs(self, firsts: list[Run], count: int) -> list[_Run]:
        """The runs that are there, each workload's, and as many copies of them in turn as it takes."""
        made = [_Run(run.id, run.tasks[0].id, run.tasks[0].workload.id) for run in firsts]
        key = "id, workload_id, target_id, device_class_id, toolchain"
        of = {"t": self._target, "c": toolchain_key(toolchain())}
        keys = [{"w": run.workload, **of} for run in made]
        self._execute(f"INSERT INTO tuning_keys ({key}) VALUES (:w, :w, :t, 1, :c)", keys)
        for number in range(len(made), count):
            first = made[number % len(firsts)]
            made.append(_Run(made[-1].id + 1, made[-1].task + 1, first.workload))
        copies = [
            {"id": run.id, "task": run.task, "run": run.id, "of_run": first.id, "of_task": first.task}
            for run, first in zip(made[len(firsts) :], made * (count // len(firsts) + 1))
        ]
        for start in range(0, len(copies), A_RUN):
            part = copies[start : start + A_RUN]
            runs = _columns(RunRow, "id")
            self._execute(f"INSERT INTO runs (id, {runs}) SELECT :id, {runs} FROM runs WHERE id = :of_run", part)
            tasks = _columns(RunTaskRow, "id", "run_id")
            self._execute(
                f"INSERT INTO run_tasks (id, run_id, {tasks})"
                f" SELECT :task, :run, {tasks} FROM run_tasks WHERE id = :of_task",
                part,
            )
        self._connection.commit()
        return made[:count]

    def fill_run(self, run: _Run, count: int) -> None:
        for start in range(0, count, A_RUN):
            self._part(run, start, min(A_RUN, count - start))
        numbers = {"n": count, "failed": count // 20, "run": run.id, "task": run.task}
        self._execute("UPDATE runs SET sequence = :n, trials = :n, failed = :failed WHERE id = :run", numbers)
        best = "(SELECT min(cost) FROM trials WHERE task_id = :task AND improved)"
        self._execute(
            f"UPDATE run_tasks SET trials = :n, failed = :failed, baseline_cost = 5e-3, best_cost = {best}"
            " WHERE id = :task",
            numbers,
        )
        self._connection.commit()

    def _part(self, run: _Run, start: int, count: int) -> None:
        first = self.last_trial + 1
        of: dict[str, Any] = {
            "first": first, "start": start, "count": count, "run": run.id, "task": run.task,
            "workload": run.workload, "target": self._target, "device": self._device, "short": SHORT_TRACE,
            "own": run.id == 1, "nr": (run.id * 7 + start // A_RUN) % _PATTERNS, "begins": start == 0,
            "at": _text(_BEGAN + timedelta(seconds=first)) if self._sqlite else _BEGAN + timedelta(seconds=first),
        }  # fmt: skip
        number = "printf('%032x', :first + i)" if self._sqlite else "lpad(to_hex(:first + i), 32, '0')"
        when = (
            "strftime('%Y-%m-%d %H:%M:%f000', :at, '+' || i || ' seconds')"
            if self._sqlite
            else "CAST(:at AS timestamptz) + i * interval '1 second'"
        )
        chosen = "pattern WHERE nr = :nr AND i < :count"
        whole = "(:own OR improved AND :begins)"
        self._execute(
            f"INSERT INTO candidates (id, workload_id, target_id, digest, trace)"
            f" SELECT :first + i, :workload, :target, CASE WHEN :own THEN digest ELSE {number} END,"
            f" CASE WHEN {whole} THEN trace ELSE substr(trace, 1, :short) END"
            f" FROM pattern JOIN own USING (i) WHERE nr = :nr AND i < :count",
            of,
        )
        self._execute(
            f"INSERT INTO trials ({_TRIALS}) SELECT :first + i, :run, :start + i + 1, :task, :workload, :first + i,"
            f" :device, 'search', CASE WHEN ok THEN 'ok' ELSE 'failed' END, CASE WHEN ok THEN NULL ELSE 'crash' END,"
            f" CASE WHEN ok THEN '' ELSE 'SIGSEGV' END, samples, cost, cost / 100, '[]', ok, ok,"
            f" improved AND :begins, 0.05, 0.1, '{{\"load_1m\": 0.5}}', '', {when}, {when} FROM {chosen}",
            of,
        )
        self.last_trial += count

    def finish(self) -> None:
        if not self._sqlite:  # ids were given here, not by its sequences
            for table in ("trials", "candidates", "tuning_keys", "runs", "run_tasks"):
                self._execute(f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), (SELECT max(id) FROM {table}))")
        self._connection.commit()
        self._connection.invalidate()  # its settings are nobody else's


def _columns(table: Any, *without: str) -> str:
    return ", ".join(f'"{column.name}"' for column in table.__table__.columns if column.name not in without)


def _pattern(number: int) -> Iterator[dict[str, object]]:
    """The times of a run."""
    rng = random.Random(number)
    best = float("inf")
    for i in range(A_RUN):
        ok = i % 20 != 19
        cost = 1e-3 * rng.lognormvariate(0, 0.5) if ok else None
        improved = cost is not None and cost < best
        best = min(best, cost or best)
        samples = "[]" if cost is None else f"[{cost!r}, {cost * 1.01!r}, {cost * 0.99!r}]"
        yield {"nr": number, "i": i, "cost": cost, "samples": samples, "ok": ok, "improved": improved}


def _text(moment: datetime) -> str:
    return moment.replace(tzinfo=None).isoformat(" ", "microseconds")


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
