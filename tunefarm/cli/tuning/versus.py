"""Time a built matmul against numpy's in one process, in turns; prints one JSON line.

Used by benchmarks/tuning.py.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from pathlib import Path

import numpy as np

from compiler.artifact import Artifact
from compiler.runtime.core.device import cpu
from compiler.runtime.core.ndarray import array, empty
from compiler.runtime.load import load_artifact

_ROUNDS = 15
_CALLS = 20
_REST_S = 0.2
"""Rest before each turn: OpenBLAS's idle threads spin for up to 100 ms after a call, which takes the cores from
whatever runs next and halves a two-thread kernel. Both sides rest alike, then warm up until their threads are awake."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("artifact", type=Path, help="a matmul built by `tunefarm build --out`")
    parser.add_argument("--core", type=int, help="pin this process to a core")
    args = parser.parse_args()
    if args.core is not None:
        os.sched_setaffinity(0, {args.core})
    artifact = Artifact.from_bytes(args.artifact.read_bytes())
    print(json.dumps(compare(artifact)))


def compare(artifact: Artifact) -> dict[str, float]:
    """Median GFLOP/s of both over interleaved rounds, the ratio ours/numpy, and the largest difference."""
    entry = artifact.entries[0]
    left, right = entry.args[0].fixed_shape, entry.args[1].fixed_shape
    assert left is not None
    assert right is not None
    (m, k), (_, n) = left, right
    rng = np.random.default_rng(0)
    a = rng.uniform(-1, 1, (m, k)).astype("float32")
    b = rng.uniform(-1, 1, (k, n)).astype("float32")
    device = cpu(0)
    ours = load_artifact(artifact)
    inputs = (array(a, device), array(b, device), empty((m, n), "float32", device))
    evaluator = ours.time_evaluator(entry.name, device, number=_CALLS, repeat=2)
    theirs = np.empty((m, n), "float32")
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(_ROUNDS):
        time.sleep(_REST_S)
        times[0].append(evaluator(*inputs).results[1])
        time.sleep(_REST_S)
        for _ in range(_CALLS):
            np.matmul(a, b, out=theirs)
        start = time.perf_counter()
        for _ in range(_CALLS):
            np.matmul(a, b, out=theirs)
        times[1].append((time.perf_counter() - start) / _CALLS)
    flops = 2.0 * m * n * k
    speeds = [flops / statistics.median(t) / 1e9 for t in times]
    error = float(np.abs(inputs[2].numpy() - a.astype("float64") @ b.astype("float64")).max())
    return {"gflops": speeds[0], "numpy_gflops": speeds[1], "ratio": speeds[0] / speeds[1], "max_error": error}


if __name__ == "__main__":
    main()
