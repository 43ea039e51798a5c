"""A model in a seeded store: two versions, two weeks of end-to-end times on two device classes, profiles, a graph."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from tuner.records.model import NewWorkload, Workload
from tuner.records.model_store.facts import GraphCall, KernelShare, NewModelTask, NewModelTime, NewModelVersion
from tuner.records.store import RecordStore

OLD, NEW = "c" * 64, "d" * 64
SEEDED_PEAKS = {"peak_gflops": 180.0, "peak_gbytes": 24.0}
BLOCKS = 8
"""Blocks of the graph: each has two convolutions, one after the other, beside a way round both."""


def seed_model(
    store: RecordStore, workloads: Sequence[Workload], devices: Sequence[int], target: str, run: int, now: datetime
) -> int:
    """Add a model of three kernels that the store knows and one that nobody tuned; returns its id."""
    rng = random.Random(5)
    matmul, conv, softmax = workloads
    version = NewModelVersion(
        name="resnet18",
        digest=OLD,
        file_digest=OLD,
        form="onnx",
        kind="llvm",
        sizes={"batch": 1},
        file_bytes=46_800_000,
        created_by="ada",
        tasks=(
            NewModelTask(workload=_known(conv), names=("fused_conv2d_add_relu", "fused_conv2d_add_relu1"), calls=16),
            NewModelTask(workload=_known(matmul), names=("fused_matmul_add",), calls=2),
            NewModelTask(workload=_known(softmax), names=("softmax",), calls=1),
            NewModelTask(
                workload=NewWorkload(key="99" * 32, name="fused_max_pool2d", flops=1.2e6),
                names=("fused_max_pool2d",), calls=1,
            ),
        ),
        graph=_graph(conv.key, matmul.key, softmax.key),
    )  # fmt: skip
    first = store.models.register(version)
    second = store.models.register(_replaced(version))
    store.models.link_run(second.id, run)
    for day in range(14, -1, -1):
        tuned = min(1.0, 0.35 + 0.05 * (14 - day))
        for device, base in ((devices[0], 75e-3), (devices[-1], 46e-3)):
            if device == devices[-1] and day % 3:
                continue
            cost = base * (1.6 - 0.75 * tuned) * (1 + abs(rng.gauss(0, 0.01)))
            chosen = first if day > 6 else second
            store.models.add_time(
                NewModelTime(
                    version_id=chosen.id,
                    device_id=device,
                    target=target,
                    samples=tuple(cost * (1 + abs(rng.gauss(0, 0.008))) for _ in range(7)),
                    release="2026.11" if day in (7, 3) else "",
                    toolchain="llvm-22.1.0,tunefarm-0.1.0",
                    tuned_share=tuned,
                    kernels=_profile(cost, conv.key, matmul.key, softmax.key, tuned),
                    environment={"load_1m": 0.4, **SEEDED_PEAKS},
                    measured_by="ada",
                    measured_at=now - timedelta(days=day, minutes=20),
                )
            )
    return first.model_id


def _known(workload: Workload) -> NewWorkload:
    return NewWorkload(key=workload.key, name=workload.name)


def _replaced(version: NewModelVersion) -> NewModelVersion:
    return replace(version, digest=NEW, file_digest=NEW)


def _graph(conv: str, matmul: str, softmax: str) -> tuple[GraphCall, ...]:
    calls = [GraphCall(name="fused_conv2d_add_relu", workload=conv, inputs=())]
    calls.append(GraphCall(name="fused_max_pool2d", workload="99" * 32, inputs=(0,)))
    for _ in range(BLOCKS):
        before = len(calls) - 1
        calls.append(GraphCall(name="fused_conv2d_add_relu", workload=conv, inputs=(before,)))
        calls.append(GraphCall(name="fused_conv2d_add_relu1", workload=conv, inputs=(len(calls) - 1,)))
        calls.append(GraphCall(name="add", workload=None, inputs=(before, len(calls) - 1)))
    calls.append(GraphCall(name="mean", workload=None, inputs=(len(calls) - 1,)))
    calls.append(GraphCall(name="fused_matmul_add", workload=matmul, inputs=(len(calls) - 1,)))
    calls.append(GraphCall(name="softmax", workload=softmax, inputs=(len(calls) - 1,)))
    return tuple(calls)


def _profile(cost: float, conv: str, matmul: str, softmax: str, tuned: float) -> tuple[KernelShare, ...]:
    rows = (
        ("fused_conv2d_add_relu", 9, 0.50, conv, "hit" if tuned > 0.4 else "untuned", 0.31 + 0.3 * tuned),
        ("fused_conv2d_add_relu1", 8, 0.24, conv, "hit" if tuned > 0.4 else "untuned", 0.35 + 0.3 * tuned),
        ("fused_matmul_add", 2, 0.09, matmul, "hit", 0.62),
        ("fused_max_pool2d", 1, 0.08, "99" * 32, "untuned", 0.12),
        ("add", 8, 0.03, None, "", 0.7),
        ("softmax", 1, 0.02, softmax, "untuned", 0.2),
    )
    return tuple(
        KernelShare(name=name, calls=calls, seconds=share * cost, workload=key, config=config, roofline=roofline)
        for name, calls, share, key, config, roofline in rows
    )
