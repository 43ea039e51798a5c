"""How long one candidate takes to build: schedule, lower, generate code, LLVM.

    python benchmarks/build_time.py
    python benchmarks/build_time.py --peer /path/to/peer/bin/python

Candidates are drawn from the search space of a float32 matmul, seeded. With --peer, Apache TVM builds the same
schedules (a trace printed as Python runs there too), in the same run.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from compiler.codegen.effort import effort_for
from compiler.codegen.llvm import compile_text, options_for
from compiler.codegen.module import llvm_text
from compiler.lower.pipeline import lower_func
from compiler.schedule.trace import Trace, apply_trace
from compiler.target import Target
from compiler.tir.nodes import PrimFunc
from tuner.space.generate import generate
from tuner.workloads import WorkloadSpec

PHASES = ("schedule", "lower", "codegen", "LLVM")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=512, help="square matmul, float32")
    parser.add_argument("--candidates", type=int, default=15)
    parser.add_argument("--peer", help="Python with apache-tvm installed")
    args = parser.parse_args()
    target = Target.host()
    matmul = WorkloadSpec("matmul", (args.size,) * 3)
    traces = draw(matmul.prim_func(), target, args.candidates)
    ours = [build(matmul.prim_func(), trace, target) for trace in [traces[0], *traces]][1:]
    report(f"tunefarm, {matmul}", ours)
    conv = WorkloadSpec("conv2d", (1, 64, 56, 56, 64, 3, 3))
    report(f"tunefarm, {conv}", [build(conv.prim_func(), t, target) for t in draw(conv.prim_func(), target, 9)])
    if args.peer:
        peer = build_with_peer(args.peer, args.size, target, traces)
        median = statistics.median(sum(times) for times in peer)
        print(f"{'apache-tvm, ' + str(matmul):44}{1e3 * median:8.1f} ms for the same {len(peer)} schedules")
        print(f"the peer's median / ours: {median / statistics.median(sum(times) for times in ours):.1f}")


def draw(func: PrimFunc, target: Target, count: int) -> list[Trace]:
    rng = np.random.default_rng(0)
    sketches = generate(func, target)
    points = [(sketches[i % len(sketches)], sketches[i % len(sketches)].random(rng)) for i in range(count)]
    return [Trace.from_json(sketch.trace_json(point)) for sketch, point in points if point is not None]


def build(func: PrimFunc, trace: Trace, target: Target) -> list[float]:
    """Seconds of each phase."""
    marks = [time.perf_counter()]
    scheduled = apply_trace(func, trace).func
    marks.append(time.perf_counter())
    lowered = lower_func(scheduled, target.vector_bits)
    marks.append(time.perf_counter())
    text = llvm_text({"main": lowered}, options_for(target))
    marks.append(time.perf_counter())
    compile_text(text, target, effort_for(lowered))
    marks.append(time.perf_counter())
    return [after - before for before, after in itertools.pairwise(marks)]


def report(name: str, times: Sequence[Sequence[float]]) -> None:
    total = statistics.median(sum(t) for t in times)
    parts = ", ".join(f"{phase} {1e3 * statistics.median(t[i] for t in times):.1f}" for i, phase in enumerate(PHASES))
    print(f"{name:44}{1e3 * total:8.1f} ms median of {len(times)} ({parts})")


def build_with_peer(python: str, size: int, target: Target, traces: Sequence[Trace]) -> list[list[float]]:
    programs = [trace.as_python() for trace in traces]
    job = {"size": size, "cpu": target.mcpu, "cores": target.num_cores or 1, "programs": programs}
    script = Path(__file__).parent / "peers" / "build_time.py"
    done = subprocess.run([python, str(script)], input=json.dumps(job), capture_output=True, text=True, check=True)
    seconds: list[list[float]] = json.loads(done.stdout.strip().splitlines()[-1])["seconds"]
    return seconds


if __name__ == "__main__":
    main()
