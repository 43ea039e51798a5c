"""The pool of parallel loops beside OpenMP: the cost of a fork and join, and two-thread kernels beside a busy process.

    python benchmarks/threads.py

Both sides run the same C-like loops: ours built by tunefarm, OpenMP's by gcc -O3 -fopenmp (libgomp, default settings),
each timed by native code in a process of its own, in turns; medians. Needs gcc and two cores.

- small: a parallel loop of two tasks of some 5 us. Beyond half of its time on one thread it takes fork and join.
- large: a parallel loop of 64 tasks, about a millisecond on two threads.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROUNDS = 9
STEP = {"small": 1 << 12, "large": 1 << 15}  # multiply-adds in a row, a task
TASKS = {"small": 2, "large": 64}
CALLS = {"small": 20_000, "large": 100}

OPENMP = """
#include <stdint.h>
#include <time.h>
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC_RAW, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}
static void work(float *y, int task, int64_t steps) {
  float x = y[16 * task];
  for (int64_t i = 0; i < steps; i++) x = x * 0.999f + 0.5f;
  y[16 * task] = x;
}
double run(float *y, int64_t tasks, int64_t steps, int64_t threads, int64_t n) {
  double start = now();
  for (int64_t r = 0; r < n; r++) {
    #pragma omp parallel for num_threads(threads) schedule(static)
    for (int i = 0; i < tasks; i++) work(y, i, steps);
  }
  return (now() - start) / n;
}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--side", choices=["ours", "openmp"], help=argparse.SUPPRESS)
    parser.add_argument("--library", help=argparse.SUPPRESS)
    args = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))[:2]
    if len(cores) < 2:
        parser.error("two cores are needed")
    os.sched_setaffinity(0, set(cores))
    if args.side:
        serve(ours() if args.side == "ours" else openmp(args.library))
        return
    with tempfile.TemporaryDirectory() as folder:
        sides = {"tunefarm": Side("ours"), "libgomp": Side("openmp", compile_openmp(Path(folder)))}
        try:
            report(sides, cores[1], args.rounds)
        finally:
            for side in sides.values():
                side.close()


def report(sides: dict[str, Side], core: int, rounds: int) -> None:
    rows = {}
    for what in TASKS:
        serial, alone = median_of(sides, what, 1, rounds), median_of(sides, what, 2, rounds)
        with Busy(core):
            beside = median_of(sides, what, 2, rounds)
        rows[what] = serial, alone, beside
    print(f"{'microseconds':22}{'one thread':>12}{'two':>10}{'two beside a busy core':>24}{'slower':>9}")
    for what, (serial, alone, beside) in rows.items():
        for name in sides:
            slower = f"{beside[name] / alone[name]:.1f}x"
            print(f"{what + ', ' + name:22}{serial[name] * 1e6:12.1f}{alone[name] * 1e6:10.1f}", end="")
            print(f"{beside[name] * 1e6:24.1f}{slower:>9}")
        columns = [values["tunefarm"] / values["libgomp"] for values in rows[what]]
        print("{:22}{:12.2f}{:10.2f}{:24.2f}".format(f"{what}, ours / libgomp", *columns))
    serial, alone, _ = rows["small"]
    forks = {name: alone[name] - serial[name] / 2 for name in sides}
    said = ", ".join(f"{name} {value * 1e6:.2f} us" for name, value in forks.items())
    print(f"fork and join: {said}; ours / libgomp: {forks['tunefarm'] / forks['libgomp']:.2f}")


def median_of(sides: dict[str, Side], what: str, threads: int, rounds: int) -> dict[str, float]:
    """Seconds per call, in turns."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, side in sides.items():
            times[name].append(side.ask(what, threads))
    return {name: statistics.median(values) for name, values in times.items()}


class Side:
    """A process that times on request."""

    def __init__(self, side: str, library: str = "") -> None:
        command = [sys.executable, __file__, "--side", side, "--library", library]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, what: str, threads: int) -> float:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps([what, threads]), file=self._process.stdin, flush=True)
        return float(self._process.stdout.readline())

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


class Busy:
    """A process that does nothing but use one core."""

    def __init__(self, core: int) -> None:
        self._core = core

    def __enter__(self) -> None:
        code = f"import os\nos.sched_setaffinity(0, {{{self._core}}})\nprint(1, flush=True)\nwhile True: pass"
        self._process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        self._process.stdout.readline()

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()


def serve(run: Callable[[str, int, int], float]) -> None:
    for line in sys.stdin:
        what, threads = json.loads(line)
        run(what, threads, max(CALLS[what] // 10, 1))  # wakes the threads
        print(run(what, threads, CALLS[what]), flush=True)


def compile_openmp(folder: Path) -> str:
    source, library = folder / "openmp.c", folder / "openmp.so"
    source.write_text(OPENMP)
    command = ["gcc", "-O3", "-march=native", "-fopenmp", "-shared", "-fPIC", "-o", str(library), str(source)]
    subprocess.run(command, check=True)
    return str(library)


def openmp(library: str) -> Callable[[str, int, int], float]:
    code = ctypes.CDLL(library)
    code.run.restype, code.run.argtypes = ctypes.c_double, [ctypes.c_void_p, *[ctypes.c_int64] * 4]
    memory = (ctypes.c_float * (16 * max(TASKS.values())))()
    return lambda what, threads, calls: float(code.run(memory, TASKS[what], STEP[what], threads, calls))


def ours() -> Callable[[str, int, int], float]:
    import numpy as np

    import tunefarm as tvm
    from tunefarm import runtime

    dev = tvm.cpu()
    modules = {what: folding(what) for what in TASKS}
    arrays = {what: [tvm.nd.array(np.ones(s, "float32"), dev) for s in ((n, 16), (n,))] for what, n in TASKS.items()}

    def run(what: str, threads: int, calls: int) -> float:
        runtime.set_num_threads(threads)
        return float(modules[what].time_evaluator(what, dev, number=calls)(*arrays[what]).results[0])

    return run


def folding(what: str) -> Any:
    """A parallel loop of tasks, each a chain of multiply-adds."""
    import tunefarm as tvm
    from tunefarm import te

    tasks, steps = TASKS[what], STEP[what]
    x = te.placeholder((tasks, 16), name="X")
    r = te.reduce_axis((0, steps), name="r")
    fold = te.comm_reducer(lambda u, v: u * 0.999 + v, lambda dtype: te.const(0.0, dtype), name="fold")
    y = te.compute((tasks,), lambda i: fold(x[i, 0] + te.const(0.0, "float32") * r, axis=r), name="Y")
    schedule = te.create_schedule(y.op)
    schedule[y].parallel(y.op.axis[0])
    return tvm.build(schedule, [x, y], target="llvm", name=what)


if __name__ == "__main__":
    main()
