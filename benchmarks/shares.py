"""Three users tune three models' worth of kernels on one farm of simulated boxes: shares, utilisation, repeats.

    python benchmarks/shares.py                       # 8 devices, 10 minutes
    python benchmarks/shares.py --devices 8 --minutes 1

A box is a real server behind a real tracker; its kernel sleeps in the C library (see scaling.py). Each user is a
tuning run with its own connection to the tracker and three kernels, as a model has several. One kernel is in every
user's model, and all write into one record store. They begin one after the other, a tenth of the time apart. So the
first one holds every device before the second comes; shares are of the time after the last has come.

A share is a user's part of the device time that was lent, over a third. Utilisation is lent time over device time.
Repeats are search trials of one kernel with a candidate that was measured before.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from contextlib import ExitStack
from pathlib import Path

from scaling import _CALLS, Numbers, Ready, sleeper

from compiler.driver.build import compile_artifact
from rpc_server.box.server import Server
from tracker.client import connect_tracker
from tracker.server import Tracker
from tuner.devices.supplies import TrackerFleet
from tuner.engine.engine import tune
from tuner.engine.options import RunOptions
from tuner.engine.plan import TaskSearch, trace_source
from tuner.records.model import TrialPurpose
from tuner.records.store import RecordStore

_KEY = "simulated"
_USERS = ("ada", "bo", "cy")
_KERNELS = 3
_LOOK_S = 0.5


class UserFleet(TrackerFleet):
    """A fleet whose leases count for a user of that name."""

    def __init__(self, host: str, port: int, user: str) -> None:
        super().__init__(host, port, _KEY)
        self._tracker.close()
        self._tracker = connect_tracker(host, port, user=user)


def tuned(address: tuple[str, int], db: str, user: str, number: int, seconds: float, trial_ms: float) -> None:
    """One user's run."""
    fleet = UserFleet(*address, user)
    try:
        own = [0, *(10 * number + kernel for kernel in range(1, _KERNELS))]  # the first one is in every user's model
        calls = [round(1e3 * trial_ms / _CALLS) + each for each in own]
        tasks = [sleeper(call, fleet.target()) for call in calls]
        artifact = compile_artifact(tasks[0].func, tasks[0].target, name="main").to_bytes()
        options = RunOptions(
            trials=0, seconds=seconds, samples=3, max_samples=3, sample_ms=0, reject=False, finalists=0
        )
        with RecordStore.open(db) as store:
            tune(
                [TaskSearch(task, Numbers(), lambda digest, trace: None, trace_source(task)) for task in tasks],
                fleet=fleet, builder=Ready(artifact), options=options, store=store,
            )  # fmt: skip
    finally:
        fleet.close()


def watched(address: tuple[str, int], begin: float, end: float) -> tuple[dict[str, float], float]:
    """Device seconds by user between two moments, and the part of all device time that was lent."""
    held: defaultdict[str, float] = defaultdict(float)
    whole = 0.0
    with connect_tracker(*address) as session:
        last = time.monotonic()
        while time.monotonic() < end:
            time.sleep(_LOOK_S)
            now = time.monotonic()
            devices = session.devices()
            if now >= begin:
                whole += (now - last) * len(devices)
                for device in devices:
                    if device.user:
                        held[device.user] += now - last
            last = now
    return held, sum(held.values()) / whole if whole else 0.0


def repeats(db: str) -> tuple[int, int]:
    """Search trials in all, and those of a candidate that its kernel had been measured with before."""
    seen: Counter[tuple[str, str]] = Counter()
    with RecordStore.open(db) as store:
        for run in store.runs.newest(limit=10):
            for trial in store.trials.all(run.id):
                if trial.purpose is TrialPurpose.SEARCH:
                    seen[trial.workload_key, trial.digest] += 1
    return seen.total(), seen.total() - len(seen)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, default=8)
    parser.add_argument("--minutes", type=float, default=10.0, help="for how long all three tune")
    parser.add_argument("--trial-ms", type=float, default=1000.0, help="how long a device's trial takes")
    parser.add_argument("--within", type=float, default=0.1, help="how far a share may be from fair")
    args = parser.parse_args()
    seconds = 60 * args.minutes
    late = seconds / 10
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="tunefarm-shares-"))
        db = str(Path(folder) / "records.db")
        RecordStore.open(db, create=True).close()
        tracker = stack.enter_context(Tracker("127.0.0.1", port=0, silent=True))
        address = ("127.0.0.1", tracker.port)
        for number in range(args.devices):
            server = Server("127.0.0.1", port=0, silent=True, name=f"sim{number}", key=_KEY, tracker_addr=address)
            stack.callback(server.terminate)
        with connect_tracker(*address) as session:
            while len(session.devices()) < args.devices:
                time.sleep(0.2)
        began = time.monotonic()
        threads = []
        for number, user in enumerate(_USERS):
            left = seconds + late * (len(_USERS) - 1 - number)
            threads.append(
                threading.Thread(target=tuned, args=(address, db, user, number, left, args.trial_ms), name=user)
            )
        begin = began + late * (len(_USERS) - 1)
        found: list[tuple[dict[str, float], float]] = []
        settle = min(10.0, seconds / 10)
        watch = threading.Thread(target=lambda: found.append(watched(address, begin + settle, begin + seconds - 1)))
        watch.start()
        for thread in threads:
            thread.start()
            if thread is not threads[-1]:
                time.sleep(late)
        for thread in (*threads, watch):
            thread.join()
        trials, again = repeats(db)
    held, utilisation = found[0]
    whole = sum(held.values())
    print(f"{'user':>6}{'device s':>10}{'of fair':>9}")
    worst = 0.0
    for user in _USERS:
        fair = len(_USERS) * held[user] / whole
        worst = max(worst, abs(fair - 1))
        print(f"{user:>6}{held[user]:10.0f}{fair:9.3f}")
    print(f"utilisation {utilisation:.3f}; {trials} trials, {again} of them measured before")
    return int(worst > args.within or utilisation < 0.9 or again > 0)


if __name__ == "__main__":
    sys.exit(main())
