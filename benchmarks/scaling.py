"""How busy the engine keeps simulated devices, and what more of them bring.

    python benchmarks/scaling.py                      # 8 devices of 100 ms a trial; 1 to 64 devices of 1 s a trial
    python benchmarks/scaling.py --devices 1 8 --trial-ms 200

A device is a real server behind a real tracker; its kernel sleeps in the C library, so any number of them share
this machine's cores. Builds are made beforehand: the engine, the store, the leases, the wire and the executors are what
is measured. A device's trial takes `--trial-ms`, as 5 calls of the kernel; what executors and the engine need of the
processor comes on top, and limits how many devices one machine can play.

Utilisation is time measuring over time leased, of all devices, from the first lease to the last trial. The rate is of
the middle 80 % of the trials. Scaling is the rate over what as many devices would reach at one device's rate.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass

from compiler.driver.build import compile_artifact
from compiler.target.target import Target
from compiler.te.operation import compute
from compiler.te.prim_func import create_prim_func
from compiler.tir.intrin.intrin import call_extern
from rpc_server.box.server import Server
from tracker.server import Tracker
from tuner.build.process_builder import BuildRequest, CandidateBuild
from tuner.devices.supplies import TrackerFleet
from tuner.engine.engine import tune
from tuner.engine.options import RunOptions
from tuner.engine.plan import TaskSearch, trace_source
from tuner.engine.progress import NoWatcher, Snapshot, TrialDone
from tuner.records.lookup.keys import candidate_digest
from tuner.records.model import TrialPurpose
from tuner.task import TuningTask

_CALLS = 5  # of a trial: the check, the warm-up, three samples
_KEY = "simulated"


@dataclass(frozen=True)
class Number:
    """A candidate that is only told from others by its number."""

    number: int

    @property
    def trace_json(self) -> str:
        return f"[{self.number}]"

    @property
    def digest(self) -> str:
        return candidate_digest(self.trace_json)


class Numbers:
    """Offers numbers for ever."""

    def __init__(self) -> None:
        self._next = 0

    def ask(self, count: int) -> Sequence[Number]:
        first, self._next = self._next, self._next + count
        return [Number(i) for i in range(first, first + count)]

    def tell(self, candidate: Number, cost: float | None) -> None:
        pass


class Ready:
    """A builder whose every build is the same, and done."""

    workers, cores = 8, 0

    def __init__(self, artifact: bytes) -> None:
        self._result = CandidateBuild(artifact, None, "", 0.0)

    def submit(self, request: BuildRequest) -> Future[CandidateBuild]:
        done: Future[CandidateBuild] = Future()
        done.set_result(self._result)
        return done

    def close(self) -> None:
        pass


class Times(NoWatcher):
    """The times at which search trials were recorded."""

    def __init__(self) -> None:
        self.stamps: list[float] = []

    def trial(self, done: TrialDone) -> None:
        if done.purpose is TrialPurpose.SEARCH:
            self.stamps.append(done.timestamp)

    def rate(self) -> float:
        cut = len(self.stamps) // 10
        middle = self.stamps[cut : len(self.stamps) - cut]
        return (len(middle) - 1) / (middle[-1] - middle[0])


def sleeper(call_us: int, target: str) -> TuningTask:
    """A kernel that sleeps for so long."""
    out = compute((1,), lambda i: call_extern("int32", "usleep", call_us), name="slept")
    return TuningTask(f"sleep:{call_us}us", create_prim_func([out]), Target(target))


def simulate(devices: int, trial_ms: float, trials: int) -> tuple[Snapshot, float]:
    """One run; its last snapshot and its rate of trials per second."""
    with ExitStack() as stack:
        tracker = stack.enter_context(Tracker("127.0.0.1", port=0, silent=True))
        address = ("127.0.0.1", tracker.port)
        for number in range(devices):
            server = Server("127.0.0.1", port=0, silent=True, name=f"sim{number}", key=_KEY, tracker_addr=address)
            stack.callback(server.terminate)
        fleet = TrackerFleet(*address, _KEY)
        stack.callback(fleet.close)
        while fleet.count() < devices:
            time.sleep(0.1)
        task = sleeper(round(1e3 * trial_ms / _CALLS), fleet.target())
        times = Times()
        outcome = tune(
            [TaskSearch(task, Numbers(), lambda digest, trace: None, trace_source(task))],
            fleet=fleet,
            builder=Ready(compile_artifact(task.func, task.target, name="main").to_bytes()),
            options=RunOptions(trials=trials, samples=3, max_samples=3, sample_ms=0, reject=False, finalists=0),
            watcher=times,
        )
    assert outcome.snapshot.tasks[0].failed == 0, outcome.snapshot.failures
    return outcome.snapshot, times.rate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, nargs="+", help="numbers of devices, the first being what counts as one")
    parser.add_argument("--trial-ms", type=float, help="how long a device's trial takes")
    parser.add_argument("--trials", type=int, default=30, help="trials a device")
    args = parser.parse_args()
    print(f"{'devices':>8}{'ms a trial':>12}{'trials/s':>10}{'utilisation':>13}{'of linear':>11}")
    if args.devices is None:
        report([8], args.trial_ms or 100, 3 * args.trials)
    report(args.devices or [1, 2, 4, 8, 16, 32, 64], args.trial_ms or 1000, args.trials)


def report(counts: Sequence[int], trial_ms: float, trials: int) -> None:
    one = 0.0
    for devices in counts:
        snapshot, rate = simulate(devices, trial_ms, trials * devices)
        one = one or rate / devices
        linear = rate / (devices * one)
        print(f"{devices:8}{trial_ms:12g}{rate:10.1f}{snapshot.utilisation:13.3f}{linear:11.3f}", flush=True)


if __name__ == "__main__":
    main()
