"""A record store with believable contents: devices, finished, failed, interrupted and running runs.

For tests of the pages and the API, and to look at: `python -m tests.kit.records.seed FILE` makes one, and
`python -m tests.kit.records.seed FILE --serve` also serves it, with a run that goes on.
"""

from __future__ import annotations

import json
import math
import random
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from compiler import topi
from compiler.te.prim_func import create_prim_func
from compiler.te.tensor import placeholder
from compiler.tir.nodes import PrimFunc
from rpc_server.wire.tracker_messages import FarmNumbers
from rpc_server.wire.tracker_records import CheckInfo, DeviceInfo, QueueNumbers, Scores
from rpc_server.wire.trial_messages import FailureKind
from tests.kit.records.seed_family import seed_family
from tests.kit.records.seed_models import seed_model
from tuner.records.db.types import utcnow
from tuner.records.farm.model_farm import DeviceEventKind, NewBenchResult, NewBenchRun
from tuner.records.model import (
    NewDevice,
    NewRun,
    NewRunTask,
    NewTrial,
    NewWorkload,
    Run,
    RunState,
    TrialPurpose,
    Workload,
)
from tuner.records.store import RecordStore
from tuner.workloads import OPERATORS, WorkloadSpec

TARGET = "llvm -mcpu=znver3 -mtriple=x86_64-unknown-linux-gnu"
ZEN3 = "amd-epyc-7763-64-core-processor/znver3/2t/3f9c1e0a77d2"
XEON = "intel-xeon-platinum-8481c/sapphirerapids/4t/b02f4d9c6e11"
TOOLCHAIN = {"tunefarm": "0.1.0", "llvm": "22.1.0"}
MATMUL_FLOPS = 2.0 * 512**3
PACE_S = 0.24
CONV_FLOPS = 2.0 * 64 * 56 * 56 * 64 * 9

CRASH_TEXT = """the executor ended with SIGSEGV while it ran the trial's first call
  device   rack1-03/0
  artifact 9b1f03ac2e55
last lines of its stderr:
  Fatal Python error: Segmentation fault
  Current thread 0x00007f2d4c1b3740 (most recent call first):
    File "compiler/runtime/core/module.py", line 212 in __call__
"""
TIMEOUT_TEXT = "the build ran past 10 s: LLVM was still optimising\n  unrolled 4096 iterations of k_1"
WRONG_TEXT = "output 0 differs from the reference at [3, 17]: got 1.25, want 131.8 (rtol 1e-4)"


@dataclass(frozen=True)
class Seeded:
    """Ids of what a test looks for."""

    matmul: Workload
    conv: Workload
    softmax: Workload
    finished: int
    failed: int
    interrupted: int
    running: int
    devices: tuple[int, ...]
    benchmark: int
    model: int


def trace_of(tiles: tuple[int, int], vector: int) -> str:
    """A trace as the schedule engine writes it."""
    steps: list[list[object]] = [
        ["get_block", [], {"name": "C"}, ["b0"]],
        ["get_loops", ["b0"], {}, ["l0", "l1", "l2"]],
        ["split", ["l0", None, tiles[0]], {"preserve_unit_iters": True}, ["l3", "l4"]],
        ["split", ["l1", None, tiles[1]], {"preserve_unit_iters": True}, ["l5", "l6"]],
        ["split", ["l6", None, vector], {"preserve_unit_iters": True}, ["l7", "l8"]],
        ["reorder", ["l3", "l5", "l2", "l4", "l7", "l8"], {}, []],
        ["vectorize", ["l8"], {}, []],
        ["parallel", ["l3"], {}, []],
    ]
    record = {"format": "tunefarm.trace", "version": 1, "steps": steps, "decisions": []}
    return json.dumps(record, separators=(",", ":"))


def seed(store: RecordStore, now: datetime | None = None) -> Seeded:
    """Fill an empty store."""
    now = now or utcnow()
    rng = random.Random(20)
    matmul = _workload(store, "matmul:512,512,512:float32", "matmul", [512, 512, 512], "5e1f", MATMUL_FLOPS)
    conv = _workload(store, "conv2d:1,64,56,56,64,3,3:float32", "conv2d", [1, 64, 56, 56, 64, 3, 3], "c04d", CONV_FLOPS)
    softmax = _workload(store, "softmax:128,4096:float32", "softmax", [128, 4096], "50f7", None)
    devices = (
        _device(store, "rack1-01/0", ZEN3, "AMD EPYC 7763 64-Core Processor", 2),
        _device(store, "rack1-02/0", ZEN3, "AMD EPYC 7763 64-Core Processor", 2),
        _device(store, "lab-xeon/0", XEON, "Intel Xeon Platinum 8481C", 4),
    )
    target = store.targets.upsert(TARGET).id

    def start(workloads: tuple[Workload, ...], budget: int, command: str, at: datetime) -> Run:
        tasks = tuple(NewRunTask(workload_id=w.id, target_id=target, budget=budget) for w in workloads)
        return store.runs.start(
            NewRun(
                tasks=tasks,
                toolchain=TOOLCHAIN,
                name=", ".join(w.name for w in workloads),
                command=command,
                host="build-7",
                user="ada",
                started_at=at,
            )
        )

    base = "tunefarm tune {} --trials {} --tracker 127.0.0.1:9190 --key cpu"
    first = start((matmul, conv), 64, base.format(f"{matmul.name} {conv.name}", 64), now - timedelta(hours=30))
    _fill(store, first, 64, devices[:2], rng, 0)
    store.runs.set_state(first.id, RunState.FINISHED, at=first.started_at + timedelta(seconds=41))

    broken = start((softmax,), 64, base.format(softmax.name, 64), now - timedelta(hours=5))
    why = "LLVM ERROR: no exp on this target"
    for i in range(12):
        when = broken.started_at + timedelta(seconds=1 + i / 4)
        store.trials.add(_failed(broken, 0, f"f{i:031x}", FailureKind.BUILD, why, when))
    message = f"the first 12 trials all failed with build; the first one:\n{why}"
    store.runs.set_state(broken.id, RunState.FAILED, message, at=broken.started_at + timedelta(seconds=4))

    stopped = start((softmax,), 200, base.format(softmax.name, 200), now - timedelta(hours=3))
    _fill(store, stopped, 77, devices[2:], rng, 40)
    end = stopped.started_at + timedelta(seconds=27)
    store.runs.set_state(stopped.id, RunState.INTERRUPTED, "stopped by the user (Ctrl-C)", at=end)

    began = now - timedelta(seconds=30)
    running = start((matmul, conv), 400, base.format(f"{matmul.name} {conv.name}", 400), began)
    _fill(store, running, 55, devices[:2], rng, 90)
    _events(store, devices[1], now)
    benchmark = _benchmarks(store, (matmul, conv), target, devices[:2], now, rng)
    _releases(store)
    seed_family(store, TARGET, ZEN3)
    model = seed_model(store, (matmul, conv, softmax), devices, TARGET, first.id, now)
    return Seeded(matmul, conv, softmax, first.id, broken.id, stopped.id, running.id, devices, benchmark, model)


def _events(store: RecordStore, device: int, now: datetime) -> None:
    """A device that failed a check a month ago, before it measured anything, and was cleared."""
    scores, slow = {"compute": 71.2, "memory": 18.9}, "compute is at 41.3 GFLOP/s, usually 71.2"
    for days, kind, message, data in (
        (31, DeviceEventKind.CHECK_PASSED, "", scores),
        (30.5, DeviceEventKind.CHECK_FAILED, slow, {"compute": 41.3, "memory": 18.8}),
        (30.5, DeviceEventKind.QUARANTINED, f"it failed a check: {slow}", {}),
        (30, DeviceEventKind.CLEARED, "the fan was replaced", {}),
        (30, DeviceEventKind.RETURNED, "", {}),
    ):
        store.devices.record_event(device, kind, message, at=now - timedelta(days=days), data=data)


def _benchmarks(
    store: RecordStore, workloads: tuple[Workload, ...], target: int, devices: tuple[int, ...], now: datetime,
    rng: random.Random,
) -> int:  # fmt: skip
    """Two weeks of a nightly suite, in the last days of which the matmul is slower on the first device."""
    run = None
    for day in range(14):
        at = now - timedelta(days=13 - day, hours=2)
        run = store.benches.start(
            NewBenchRun(
                suite="nightly", spec={"kernels": []}, devices="cpu", toolchain=TOOLCHAIN, host="build-7", user="ada",
                command="tunefarm bench run nightly.toml --devices cpu", started_at=at,
            )
        )  # fmt: skip
        results = []
        for device in devices:
            for workload in workloads:
                slow = workload is workloads[0] and device == devices[0] and day >= 11
                cost = (workload.flops or 1e6) / 9e10 * (1.4 if slow else 1.0)
                results.append(
                    NewBenchResult(
                        kernel=workload.name, target_id=target, device_id=device, workload_id=workload.id,
                        config_digest="c0ffee", samples=_samples(cost, rng, 0.008), calibration=0.001,
                        noise=("confirmed",) if slow and day == 11 else (), measured_at=at + timedelta(minutes=1),
                    )
                )  # fmt: skip
        store.benches.add_results(run.id, results)
        store.benches.end(run.id, RunState.FINISHED, at=at + timedelta(minutes=2))
    assert run is not None
    return run.id


def _releases(store: RecordStore) -> None:
    first = ["matmul:512,512,512:float32"]
    store.releases.create("2026.10", note="for the October image", created_by="ada", workloads=first)
    store.releases.approve("2026.10", "grace")
    store.releases.create("2026.11", created_by="ada")


def _workload(store: RecordStore, name: str, op: str, args: list[int], start: str, flops: float | None) -> Workload:
    spec = {"op": op, "args": args, "dtype": "float32"}
    func = WorkloadSpec(op, tuple(args)).prim_func() if op in OPERATORS else _softmax(args)
    return store.workloads.upsert(
        NewWorkload(key=(start * 16)[:64], name=name, spec=spec, function=func.script(), flops=flops)
    )


def _softmax(shape: list[int]) -> PrimFunc:
    data = placeholder(tuple(shape), "float32", name="data")
    return create_prim_func([data, topi.softmax(data)])


def _device(store: RecordStore, name: str, device_class: str, cpu: str, cores: int) -> int:
    fingerprint = {"cpu_model": cpu, "cores": cores, "hostname": name.partition("/")[0], "governor": "performance"}
    return store.devices.upsert(
        NewDevice(name=name, key="cpu", device_class=device_class, fingerprint=fingerprint, features=("avx2", "fma"))
    ).id


def _failed(
    run: Run, task: int, digest: str, kind: FailureKind, text: str, when: datetime, device: int | None = None
) -> NewTrial:
    return NewTrial(
        task_id=run.tasks[task].id,
        digest=digest,
        trace=trace_of((8, 64), 8),
        device_id=device,
        failure=kind,
        failure_text=text,
        build_s=0.09,
        measure_s=None if device is None else 0.8,
        finished_at=when,
    )


def _fill(store: RecordStore, run: Run, count: int, devices: tuple[int, ...], rng: random.Random, salt: int) -> None:
    """`count` trials a task, better and better, some failing; then the finals."""
    trials = []
    for i, task in enumerate(run.tasks):
        flops = task.workload.flops or 4e7
        trials.append(
            NewTrial(
                task_id=task.id,
                device_id=devices[0],
                purpose=TrialPurpose.BASELINE,
                samples=_samples(flops / (2.4e9 - 0.6e9 * i), rng),
                verified=True,
                finished_at=run.started_at + timedelta(seconds=2),
                build_s=0.11,
                measure_s=1.4,
            )
        )
    for number in range(count):
        for task in range(len(run.tasks)):
            when = run.started_at + timedelta(seconds=3 + PACE_S * (number * len(run.tasks) + task))
            trials.append(next_trial(run, task, number, devices, rng, salt, when))
    store.trials.add_all(trials)


def next_trial(
    run: Run, task: int, number: int, devices: tuple[int, ...], rng: random.Random, salt: int, when: datetime
) -> NewTrial:
    """The `number`-th search trial of a task."""
    digest = f"{rng.getrandbits(96):024x}{salt:04x}{number:04x}"
    device = devices[number % len(devices)]
    roll = rng.random()
    if roll < 0.03:
        return _failed(run, task, digest, FailureKind.CRASH, CRASH_TEXT, when, device)
    if roll < 0.06:
        return _failed(run, task, digest, FailureKind.BUILD_TIMEOUT, TIMEOUT_TEXT, when)
    if roll < 0.07:
        return _failed(run, task, digest, FailureKind.WRONG_RESULT, WRONG_TEXT, when, device)
    ceiling = (118e9, 84e9)[task % 2] * (1 - math.exp(-(number + 4) / 22))
    tiles = (2 ** rng.randrange(6), 2 ** rng.randrange(1, 7))
    speed = ceiling * rng.betavariate(2.2, 1.6) / (1 + abs(math.log2(tiles[0] / 8)) / 4) + 2e9
    flops = run.tasks[task].workload.flops or 4e7
    noisy = rng.random() < 0.06
    return NewTrial(
        task_id=run.tasks[task].id,
        digest=digest,
        trace=trace_of(tiles, 8),
        device_id=device,
        samples=_samples(flops / speed, rng, 0.09 if noisy else 0.006),
        verified=True,
        noise=("spread",) if noisy else (),
        build_s=rng.uniform(0.06, 0.14),
        measure_s=rng.uniform(0.1, 0.5),
        environment={
            "load_1m": round(rng.uniform(0.4, 1.6), 2),
            "temperature": 58.0 + number % 7,
            "expected_s": flops / speed * math.exp(0.3 * math.sin(1.7 * number)),
        },
        measured_by="17-c0ffee",
        started_at=when - timedelta(seconds=0.4),
        finished_at=when,
    )


def _samples(cost: float, rng: random.Random, spread: float = 0.006) -> tuple[float, ...]:
    return tuple(cost * (1 + abs(rng.gauss(0, spread))) for _ in range(5))


def go_on(store: RecordStore, run_id: int, stop: threading.Event, pause_s: float = 0.25) -> Iterator[int]:
    """Adds trials to a run one by one, as a tuner would; yields their ids."""
    rng = random.Random(run_id)
    run = store.runs.get(run_id)
    devices = tuple(device.id for device in store.devices.page())[:2]
    number = run.trials
    while not stop.wait(pause_s):
        yield store.trials.add(next_trial(run, number % len(run.tasks), number // 2, devices, rng, 7, utcnow()))
        number += 1


class FakeTracker:
    """A tracker's answers without a tracker. `problem` is raised when set."""

    def __init__(self) -> None:
        self.problem: Exception | None = None
        self.asked = 0

    def numbers(self) -> FarmNumbers:
        queue = QueueNumbers(expr="cpu", waiting=2, oldest_s=8.0, granted=120, waited_s=64.5)
        return FarmNumbers(7200.0, 1, 2, 3, {"granted": 120, "ended": 119}, (queue,))

    def devices(self) -> list[DeviceInfo]:
        self.asked += 1
        if self.problem is not None:
            raise self.problem
        common = {"tags": (), "lease": None, "leases": 41, "known_s": 7200.0}
        cpu = {"cpu_model": "AMD EPYC 7763 64-Core Processor", "cores": 2, "threads": 2, "target": TARGET}
        xeon = {"cpu_model": "Intel Xeon Platinum 8481C", "cores": 4}
        rows = [
            ("rack1-01/0", "leased", "", "ada", 6400.0, 0.4, cpu, ZEN3),
            ("rack1-02/0", "gone", "its box is gone", None, 5100.0, 312.0, cpu, ZEN3),
            ("rack1-03/0", "quarantined", "the probe kernel failed after a crash", None, 90.0, 0.9, cpu, ZEN3),
            ("lab-xeon/0", "ready", "", None, 1200.0, 0.6, xeon, XEON),
        ]
        return [
            DeviceInfo(
                id=name,
                box=name.partition("/")[0],
                slot=0,
                key="cpu",
                address=f"10.0.4.{11 + i}:9091",
                state=state,
                reason=reason,
                fingerprint=device_class,
                attributes=attributes,
                user=user,
                held_s=12.0 if user else 0.0,
                busy_s=busy,
                seen_s=seen,
                check=CheckInfo(passed=True, text="", age_s=900.0, scores=Scores(compute=71.5, memory=19.2)),
                **common,
            )
            for i, (name, state, reason, user, busy, seen, attributes, device_class) in enumerate(rows)
        ]


def main() -> None:
    from webui.serving.server import WebOptions, serve_app

    path = sys.argv[1]
    with RecordStore.open(path, create=True) as store:
        runs = store.runs.newest(limit=1)
        running = runs[0].id if runs else seed(store).running
        if "--serve" in sys.argv:
            stop = threading.Event()
            worker = threading.Thread(target=lambda: list(go_on(store, running, stop)), daemon=True)
            worker.start()
            serve_app(store, FakeTracker(), WebOptions(db=path, port=0), print)
            stop.set()
            worker.join()


if __name__ == "__main__":
    main()
