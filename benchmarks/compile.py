"""How long it takes to lower and build scheduled functions, and where the time goes.

    python benchmarks/compile.py
    python benchmarks/compile.py --peer PEER/bin/python      # beside Apache TVM, the same schedules
    python benchmarks/compile.py --passes --only "tiles 8x16"  # each pass of ours

A build ends with machine code in memory. Medians of wall time; with --peer each kernel is built by one compiler and
then by the other, and the ratios' geometric mean is told. Last come candidates drawn from the tuner's search spaces,
with the time their schedules take.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np

PEERS = Path(__file__).parent / "peers"
sys.path.insert(0, str(PEERS))

from kernels import KERNELS  # noqa: E402  (what the peer imports too)

from compiler.codegen.llvm.effort import effort_for  # noqa: E402
from compiler.codegen.llvm.llvm import compile_text, options_for  # noqa: E402
from compiler.codegen.llvm.module import llvm_text  # noqa: E402
from compiler.driver.build import build  # noqa: E402
from compiler.driver.pipeline import Lowering, steps  # noqa: E402
from compiler.schedule.core.schedule import apply_trace  # noqa: E402
from compiler.schedule.core.trace import Trace  # noqa: E402
from compiler.target.target import Target  # noqa: E402
from compiler.tir import ops  # noqa: E402
from compiler.tir.nodes import PrimFunc  # noqa: E402
from tunefarm import te, tir  # noqa: E402
from tuner.space.generate import generate  # noqa: E402
from tuner.workloads import WorkloadSpec  # noqa: E402

OURS = SimpleNamespace(
    te=te,
    Schedule=tir.Schedule,
    block=lambda schedule, name: schedule.get_block(name),
    exp=te.exp,
    maximum=ops.maximum,
    size=te.size_var,
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="kernels whose name contains this")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--candidates", type=int, default=15, help="of each search space; 0: none")
    parser.add_argument("--limit", type=float, default=60, help="seconds the peer gets for a kernel's builds")
    parser.add_argument("--passes", action="store_true", help="milliseconds of CPU time in each pass")
    parser.add_argument("--peer", help="Python with apache-tvm installed")
    args = parser.parse_args()
    target = Target.host()
    ratios = []
    for name, make in KERNELS.items():
        if args.only not in name:
            continue
        func = make(OURS).func
        own = median_seconds(lambda func=func: build(func, target=target), args.rounds)
        line = f"{name:44}{1e3 * own:9.1f} ms"
        if args.peer:
            peer, note = peer_seconds(args.peer, name, args.rounds, target, args.limit)
            line += f"   peer {1e3 * peer:9.1f} ms {peer / own:7.1f} times ours {note}" if peer else f"   peer: {note}"
            ratios += [peer / own] if peer else []
        print(line, flush=True)
        if args.passes:
            report_passes(func, target, args.rounds)
    if ratios:
        print(f"{'geometric mean of the ratios':44}{statistics.geometric_mean(ratios):9.2f}")
    for spec in (WorkloadSpec("matmul", (512,) * 3), WorkloadSpec("conv2d", (1, 64, 56, 56, 64, 3, 3))):
        if args.candidates and args.only in str(spec):
            report_candidates(spec, target, args.candidates)


def median_seconds(call: Callable[[], object], rounds: int) -> float:
    call()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def peer_seconds(python: str, name: str, rounds: int, target: Target, limit: float) -> tuple[float, str]:
    """The peer's median and a remark. The limit where no build was done by then; 0 where the peer failed."""
    command = [python, str(PEERS / "compile.py"), name, str(rounds), target.mcpu, str(target.num_cores or 1)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            out, err = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()[0], ""
            if not out.strip():
                return limit, "(or more: stopped)"
    if not out.strip():
        return 0.0, err.strip().splitlines()[-1][:200]
    return statistics.median(json.loads(out.strip().splitlines()[-1])["seconds"]), ""


def report_passes(func: PrimFunc, target: Target, rounds: int) -> None:
    spent: dict[str, list[float]] = {}

    def timed(name: str, start: float) -> None:
        spent.setdefault(name, []).append(1e3 * (time.process_time() - start))

    for _ in range(rounds):
        lowered = func
        for step in steps(Lowering(target.vector_bits)):
            start = time.process_time()
            lowered = step.run(lowered)
            timed(step.title, start)
        start = time.process_time()
        text = llvm_text({"main": lowered}, options_for(target))
        timed("LLVM text", start)
        start = time.process_time()
        compile_text(text, target, effort_for(lowered))
        timed("LLVM", start)
    for name, times in spent.items():
        print(f"    {name:40}{statistics.median(times):9.2f} ms")


def report_candidates(spec: WorkloadSpec, target: Target, count: int) -> None:
    """Medians of scheduling and building seeded candidates of the search space."""
    func, rng = spec.prim_func(), np.random.default_rng(0)
    sketches = generate(func, target)
    points = [(sketches[i % len(sketches)], sketches[i % len(sketches)].random(rng)) for i in range(count)]
    scheduling, building = [], []
    for sketch, point in points:
        if point is None:
            continue
        trace = Trace.from_json(sketch.trace_json(point))
        start = time.perf_counter()
        scheduled = apply_trace(func, trace).func
        middle = time.perf_counter()
        build(scheduled, target=target)
        scheduling.append(middle - start)
        building.append(time.perf_counter() - middle)
    print(
        f"{'candidates of ' + str(spec):44}{1e3 * statistics.median(building):9.1f} ms "
        f"after {1e3 * statistics.median(scheduling):.1f} ms of scheduling (medians of {len(building)})"
    )


if __name__ == "__main__":
    main()
