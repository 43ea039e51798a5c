"""Adds models to a filled record store: versions, kernels, graphs, end-to-end times and profiles, as tuners write
them."""

from __future__ import annotations

import hashlib
import random
import time

from store_parts.fill import CLASS, SERVED_CLASS, Contents
from tuner.records.model import NewWorkload
from tuner.records.model_store.facts import GraphCall, KernelShare, NewModelTask, NewModelTime, NewModelVersion
from tuner.records.store import RecordStore

VERSIONS = 2
KERNELS = 30
CALLS = 120
TIMES = 20
"""Times of each version: half of them on each of two device classes, every fifth with a profile."""
_LARGEST = 60
"""The first model has so many times more, like one that was measured daily for years."""


def fill_models(address: str, contents: Contents, count: int) -> tuple[float, float]:
    """`count` models over the store's workloads; returns the seconds that registering them took, all in one
    transaction, and those of the processor here."""
    rng = random.Random(0)
    with RecordStore.open(address) as store:
        workloads = [_workload(store, config.workload_key) for config in store.best.page(limit=1000)]
        devices = [
            next(device.id for device in store.devices.page(limit=1000) if device.device_class == name)
            for name in (CLASS, SERVED_CLASS)
        ]
        runs = [run.id for run in store.runs.newest(100)]
        news = [_version(number, version, workloads, rng) for number in range(count) for version in range(VERSIONS)]
        began, cpu = time.perf_counter(), time.process_time()
        made = store.models.register_all(news)
        took = time.perf_counter() - began, time.process_time() - cpu
        for at, (new, version) in enumerate(zip(news, made, strict=True)):
            store.models.link_run(version.id, runs[at // VERSIONS % len(runs)])
            _times(store, version.id, new, contents, devices, TIMES * (_LARGEST if at < VERSIONS else 1), rng)
    return took


def _workload(store: RecordStore, key: str) -> NewWorkload:
    found = store.workloads.find(key)
    assert found is not None
    return NewWorkload(key=found.key, name=found.name, spec=found.spec, function=found.function, flops=found.flops)


def _version(number: int, version: int, workloads: list[NewWorkload], rng: random.Random) -> NewModelVersion:
    chosen = rng.sample(workloads, min(KERNELS, len(workloads)))
    names = [f"fused_matmul_add_relu{at}" for at in range(len(chosen))]
    digest = hashlib.sha256(f"{number}.{version}".encode()).hexdigest()
    calls = [rng.randrange(len(chosen)) for _ in range(CALLS)]
    return NewModelVersion(
        name=f"net{number}", digest=digest, file_digest=digest, form="onnx", kind="llvm",
        tasks=tuple(
            NewModelTask(workload=workload, names=(name,), calls=1 + calls.count(at))
            for at, (workload, name) in enumerate(zip(chosen, names, strict=True))
        ),
        graph=tuple(
            GraphCall(name=names[at], workload=chosen[at].key, inputs=(n - 1,) if n else ())
            for n, at in enumerate(calls)
        ),
    )  # fmt: skip


def _times(
    store: RecordStore, version_id: int, new: NewModelVersion, contents: Contents, devices: list[int], count: int,
    rng: random.Random,
) -> None:  # fmt: skip
    cost = rng.uniform(1e-3, 1e-1)
    shares = tuple(
        KernelShare(name=name, calls=2, seconds=cost / 40, config="hit", roofline=0.5)
        for task in new.tasks
        for name in task.names
    )
    for at in range(count):
        store.models.add_time(
            NewModelTime(
                version_id=version_id, device_id=devices[at % 2], target=contents.target,
                samples=tuple(cost * rng.uniform(0.99, 1.01) for _ in range(10)),
                tuned_share=0.9, kernels=shares if at % 5 == 0 else (),
            )
        )  # fmt: skip
