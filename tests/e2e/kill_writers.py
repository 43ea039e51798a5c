"""Kills what writes to a record store, over and over, and looks for all it had promised.

    python -m tests.e2e.kill_writers [TIMES]     (default 100, on SQLite and again on PostgreSQL)

A *tuner* adds trials in batches, claims the next candidates along with them, and renews its run; a *web app* makes
releases and tokens over HTTP. Each says on a pipe what the store acknowledged. It is killed (SIGKILL) at a random
moment after some of that. Then all that was acknowledged has to be there, whole, and what was not either whole or not
there at all.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO

from tests.kit.places import ROOT
from tuner.records.db.database import connect, parse_url
from tuner.records.model import NewDevice, NewRun, NewRunTask, NewTrial, NewWorkload, Trial
from tuner.records.runs.claims import WantedClaims
from tuner.records.store import RecordStore

PATIENCE_S = 120.0
"""How long a writer may be silent: longer than any machine makes it, and it does not hold up the rest for ever."""
_PIPE_BYTES = 4096
"""A tuner that nobody listens to stops here: or else it writes the more, the busier this machine is."""
TARGET = "llvm -mcpu=x86-64-v3 -mtriple=x86_64-unknown-linux-gnu"
BATCH = 7


def tune(address: str, life: int) -> None:
    """Write as a tuner does until killed; a line on stdout for each batch that the store has."""
    with RecordStore.open(address) as store:
        device, run = store.devices.page()[0], store.runs.newest(1)[0]
        task, number = run.tasks[0].id, 0
        store.runs.take(run.id, f"tuner-{life}", lambda _: True)
        store.trials.claim(task, device.id, batch(life, 0))
        while True:
            digests = batch(life, number)
            trials = [
                NewTrial(
                    task_id=task, digest=d, trace=json.dumps({"of": d}), device_id=device.id, verified=True,
                    samples=(1.0 / (1 + life * 1000 + number), 1.0),
                )
                for d in digests
            ]  # fmt: skip
            following = WantedClaims(task, device.id, batch(life, number + 1))
            store.trials.add_and_claim(trials, [following], f"tuner-{life}")
            store.runs.renew(run.id, f"tuner-{life}")
            print(json.dumps(digests), flush=True)
            number += 1


def batch(life: int, number: int) -> list[str]:
    return [f"{life}-{number}-{i}" for i in range(BATCH)]


def serve(address: str) -> None:
    """The web app, which says its port first."""
    from webui.serving.server import WebOptions, serve

    serve(WebOptions(db=address, port=0), lambda line: print(line, flush=True))


def prepare(address: str) -> None:
    with RecordStore.open(address, create=True) as store:
        workload = store.workloads.upsert(NewWorkload(key="w" * 64, name="w"))
        store.devices.upsert(NewDevice(name="d", key="cpu", device_class="c"))
        task = NewRunTask(workload_id=workload.id, target_id=store.targets.upsert(TARGET).id, budget=10**6)
        store.runs.start(NewRun(tasks=(task,), toolchain={}))


@contextmanager
def running(*words: str) -> Iterator[tuple[subprocess.Popen[str], IO[str]]]:
    """This file as a process of its own, killed when the block ends, or takes too long."""
    command = [sys.executable, "-m", "tests.e2e.kill_writers", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, pipesize=_PIPE_BYTES) as process:
        assert process.stdout is not None
        watch = threading.Timer(PATIENCE_S, process.kill)
        watch.start()
        try:
            yield process, process.stdout
        finally:
            watch.cancel()
            process.kill()


def heard(said: IO[str]) -> str:
    """The next line of a process that is alive."""
    line = said.readline()
    assert line.endswith("\n"), f"the writer ended, or was silent for {PATIENCE_S:g} s"
    return line


def kill_tuner(address: str, life: int, rng: random.Random) -> None:
    """One life of a tuner: some batches, then death in the middle of another."""
    promised: list[str] = []
    with RecordStore.open(address) as store:
        before = store.runs.newest(1)[0].trials
    with running("tune", address, str(life)) as (process, said):
        for _ in range(rng.randint(1, 6)):
            promised += json.loads(heard(said))
        process.kill()
        promised += [digest for line in said if line.endswith("\n") for digest in json.loads(line)]
    check_trials(address, life, promised, before)


def wait_for_the_end(address: str) -> None:
    """A server goes on with what a dead client had sent last: what is there counts once its sessions are gone."""
    if "://" not in address:
        return
    engine = connect(parse_url(address))
    others = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        " AND backend_type = 'client backend'"
    )
    deadline = time.monotonic() + 60
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        while connection.exec_driver_sql(others).scalar_one():
            assert time.monotonic() < deadline, "a session outlives its client"
            time.sleep(0.01)
    engine.dispose()


def check_trials(address: str, life: int, promised: list[str], before: int) -> None:
    """Check what a life added to the `before` trials of those before it; `check_all` looks at these again."""
    wait_for_the_end(address)
    with RecordStore.open(address) as store:
        run = store.runs.get(store.runs.newest(1)[0].id)
        trials = tuple(_trials_after(store, run.id, before))
        found = [t.digest for t in trials]
        assert set(promised) <= set(found), f"lost: {sorted(set(promised) - set(found))[:3]}"
        assert all(digest is not None and digest.startswith(f"{life}-") for digest in found), "another life's trials"
        assert len(found) % BATCH == 0, "a batch is there in part"
        check_whole(trials, before)
        assert run.trials == run.tasks[0].trials == before + len(trials), "counts and trials differ"


def check_all(address: str) -> None:
    """The trials of all lives, in the end."""
    with RecordStore.open(address) as store:
        run = store.runs.get(store.runs.newest(1)[0].id)
        trials = tuple(_trials_after(store, run.id, 0))
        check_whole(trials, 0)
        assert run.trials == run.tasks[0].trials == len(trials), "counts and trials differ"
        best = store.best.look_up("w" * 64, TARGET, "c").config
        assert best is not None
        assert best.digest in {t.digest for t in trials}


def check_whole(trials: Sequence[Trial], before: int) -> None:
    assert [t.sequence for t in trials] == list(range(before + 1, before + len(trials) + 1))
    assert all(t.trace == json.dumps({"of": t.digest}) and len(t.samples) == 2 for t in trials), "a torn row"


def _trials_after(store: RecordStore, run: int, after: int) -> Iterator[Trial]:
    while page := store.trials.page(run, after, 1000):
        yield from page
        after = page[-1].sequence


def kill_web(address: str, life: int, rng: random.Random) -> None:
    """One life of the web app: releases made over HTTP, then death while another is."""
    import httpx

    promised = []
    with running("serve", address) as (process, said):
        url = heard(said).split()[-1]
        for number in range(rng.randint(1, 3)):
            name = f"r{life}-{number}"
            httpx.post(f"{url}/api/v1/releases", json={"name": name}, timeout=60).raise_for_status()
            promised.append(name)
        body = json.dumps({"name": f"r{life}-last"}).encode()
        host, port = url.removeprefix("http://").split(":")
        send_and_leave(host, int(port), body)
        process.kill()
    wait_for_the_end(address)
    with RecordStore.open(address) as store:
        names = {release.name for release in store.releases.newest(1000)}
        assert set(promised) <= names, f"lost: {sorted(set(promised) - names)}"
        for release in store.releases.newest(5):
            assert len(store.releases.entries(release.name)) == release.entry_count, "a release in part"
            store.releases.approve(release.name, "checker")  # refuses one whose rows do not agree with its digest


def send_and_leave(host: str, port: int, body: bytes) -> None:
    import socket

    with socket.create_connection((host, port)) as opened:
        head = f"POST /api/v1/releases HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        opened.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)


def kill_all(
    address: str, times: int, seed: int, web_every: int = 4, tell: Callable[[int], None] = lambda killed: None
) -> None:
    """Every `web_every`-th life is a web app's; `tell` hears how many have ended."""
    prepare(address)
    rng = random.Random(seed)
    for life in range(1, times + 1):
        (kill_web if life % web_every == 0 else kill_tuner)(address, life, rng)
        tell(life)
    check_all(address)


def main() -> None:
    match sys.argv[1:]:
        case ["tune", address, life]:
            tune(address, int(life))
        case ["serve", address]:
            serve(address)
        case rest:
            times = int(rest[0]) if rest else 100
            for kind in ("SQLite", "PostgreSQL"):
                print(f"{kind}: {times} lives", flush=True)
                with a_store(kind) as address:
                    kill_all(address, times, 1, tell=partial(progress, kind, times))
                print(f"{kind}: killed {times} times, no acknowledged trial or release lost, no torn row", flush=True)


def progress(kind: str, times: int, killed: int) -> None:
    if killed % 10 == 0 and killed < times:
        print(f"{kind}: {killed} of {times} killed, all as promised", flush=True)


@contextmanager
def a_store(kind: str) -> Iterator[str]:
    """The address of an empty database."""
    if kind == "SQLite":
        with tempfile.TemporaryDirectory() as folder:
            yield str(Path(folder, "records.db"))
    else:
        from tests.kit.records.postgres import postgres_database, postgres_server

        with postgres_server() as server, postgres_database(server) as address:
            yield address


if __name__ == "__main__":
    main()
