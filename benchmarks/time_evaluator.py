"""How well time_evaluator measures: what its loop adds to a call, and how far 30 separate processes agree.

    python benchmarks/time_evaluator.py
    python benchmarks/time_evaluator.py --peer /path/to/peer/bin/python

Each process builds a matmul of about a millisecond on one thread, measures it with number=10, repeat=10 and prints the
median; processes of ours and of the peer run in turns. Spread is the median absolute deviation of those medians over
their median.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
from pathlib import Path

SIZE, NUMBER, REPEAT = 96, 10, 10
PEER = Path(__file__).parent / "peers" / "time_evaluator.py"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=30)
    parser.add_argument("--peer", help="Python with apache-tvm installed")
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.once:
        print(matmul_seconds())
        return
    report_empty_call(args.peer)
    from compiler.target.target import Target

    commands = {"tunefarm": [sys.executable, __file__, "--once"]}
    if args.peer:
        numbers = [str(n) for n in (SIZE, NUMBER, REPEAT)]
        commands["apache-tvm"] = [args.peer, str(PEER), *numbers, Target.host().mcpu]
    medians: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(args.processes):
        for name, command in commands.items():
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            medians[name].append(float(done.stdout.split()[-1]))
    spreads = {name: spread(values) for name, values in medians.items()}
    print(f"{args.processes} processes{'':10}{'median, ms':>12}{'spread, %':>12}{'range, %':>12}")
    for name, values in medians.items():
        middle = statistics.median(values)
        width = (max(values) - min(values)) / middle
        print(f"{name:22}{middle * 1e3:12.4f}{spreads[name] * 100:12.3f}{width * 100:12.2f}")
    if args.peer:
        print(f"spread, ours / peer: {spreads['tunefarm'] / spreads['apache-tvm']:.2f}")


def report_empty_call(peer: str | None) -> None:
    ours = empty_call_ns()
    print(f"a call of an empty kernel in the loop: {ours:.2f} ns", end="")
    if peer:
        done = subprocess.run([peer, str(PEER), "empty"], check=True, capture_output=True, text=True)
        theirs = float(done.stdout.split()[-1])
        print(f"; apache-tvm {theirs:.2f} ns; ours / peer: {ours / theirs:.3f}", end="")
    print()


def spread(values: list[float]) -> float:
    middle = statistics.median(values)
    return statistics.median(abs(v - middle) for v in values) / middle


def matmul_seconds() -> float:
    import numpy as np

    import tunefarm as tvm
    from tunefarm import te

    a = te.placeholder((SIZE, SIZE), name="A")
    b = te.placeholder((SIZE, SIZE), name="B")
    k = te.reduce_axis((0, SIZE), name="k")
    c = te.compute((SIZE, SIZE), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    module = tvm.build(te.create_schedule(c.op), [a, b, c], target="llvm", name="matmul")
    dev = tvm.cpu()
    rng = np.random.default_rng(0)
    arrays = [tvm.nd.array(rng.random((SIZE, SIZE), dtype="float32"), dev) for _ in range(3)]
    return float(module.time_evaluator("matmul", dev, number=NUMBER, repeat=REPEAT)(*arrays).median)


def empty_call_ns() -> float:
    """A kernel that copies one number."""
    import tunefarm as tvm
    from tunefarm import te

    a = te.placeholder((1,), name="A")
    b = te.compute((1,), lambda i: a[i], name="B")
    module = tvm.build(te.create_schedule(b.op), [a, b], target="llvm", name="empty")
    dev = tvm.cpu()
    arrays = [tvm.nd.empty((1,), "float32", dev) for _ in range(2)]
    result = module.time_evaluator("empty", dev, number=1_000_000, repeat=9)(*arrays)
    return float(result.median * 1e9)


if __name__ == "__main__":
    main()
