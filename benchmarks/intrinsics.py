"""Elementary functions beside numpy's ufuncs, one thread, in one run.

    python benchmarks/intrinsics.py [--dtype float32] [--seconds 0.2] [NAME ...]

Each function maps arrays that stay in the first-level cache (8 and 32 KiB with their results; the difference of their
times is that of the elements, without what a call costs) and one that does not fit any cache (64 MiB). Ours and
numpy's take turns, CPU time, least of many; the ratio is numpy's time over ours. scipy has the functions that numpy
lacks; without it they are composed from numpy's (sigmoid) or left out (erf).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from compiler.driver.build import build
from compiler.runtime.core.ndarray import array, empty
from compiler.schedule.core.schedule import Schedule
from compiler.te.operation import compute, placeholder
from compiler.te.prim_func import create_prim_func
from compiler.tir.intrin import intrin

PEERS: dict[str, Callable[..., Any]] = {
    "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p,
    "tanh": np.tanh, "sin": np.sin, "cos": np.cos, "tan": np.tan, "sqrt": np.sqrt, "floor": np.floor,
    "sinh": np.sinh, "cosh": np.cosh, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "exp10": lambda x, out: np.power(x.dtype.type(10), x, out=out),
    "sigmoid": lambda x, out: np.divide(1, np.add(1, np.exp(np.negative(x, out=out), out=out), out=out), out=out),
}  # fmt: skip
HIGHEST = {"asin": 1.0, "acos": 1.0}  # of the arguments; else 8
SIZES = {"L1": (4 << 10, 16 << 10), "64 MiB": (64 << 20,)}  # bytes of an array; of two, what lies between them
CALLS = 40  # of an array in the cache, in one go
LANES = 64  # bytes a vector


def kernel(name: str, count: int, dtype: str) -> Any:
    x = placeholder((count,), dtype, name="X")
    func = create_prim_func([x, compute((count,), lambda i: getattr(intrin, name)(x[i]), name="Y")])
    schedule = Schedule(func)
    (loop,) = schedule.get_loops(schedule.get_block("Y"))
    _, lane = schedule.split(loop, [None, LANES // np.dtype(dtype).itemsize])
    schedule.vectorize(lane)
    return build(schedule.mod, target="llvm")


def seconds(runs: list[Callable[[], Any]], calls: int, least: float) -> list[float]:
    """The least CPU time of a call of each, over `least` seconds a side, in turns."""
    best = [float("inf")] * len(runs)
    end, rounds = time.thread_time() + len(runs) * least, 0
    while time.thread_time() < end or rounds < 5:
        for i, run in enumerate(runs):
            start = time.thread_time()
            for _ in range(calls):
                run()
            best[i] = min(best[i], (time.thread_time() - start) / calls)
        rounds += 1
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(PEERS), metavar="NAME")
    parser.add_argument("--dtype", default="float32", choices=["float32", "float64"])
    parser.add_argument("--seconds", type=float, default=0.2, help="for each side of each line")
    options = parser.parse_args()
    print(f"{'function':10} {'size':>7} {'ours ns/el':>11} {'numpy ns/el':>12} {'ratio':>6}")
    for name in options.names:
        for label, sizes in SIZES.items():
            report(name, label, [size // np.dtype(options.dtype).itemsize for size in sizes], options)


def report(name: str, label: str, counts: list[int], options: argparse.Namespace) -> None:
    runs = [run for count in counts for run in sides(name, count, options.dtype)]
    times = seconds(runs, CALLS if len(counts) > 1 else 1, options.seconds)
    count, ours, theirs = counts[-1], times[-2], times[-1]
    if len(counts) > 1:
        count, ours, theirs = count - counts[0], ours - times[0], theirs - times[1]
    print(f"{name:10} {label:>7} {ours / count * 1e9:11.3f} {theirs / count * 1e9:12.3f} {theirs / ours:6.2f}")


def sides(name: str, count: int, dtype: str) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Our call and numpy's, of the same numbers."""
    values = np.random.default_rng(0).uniform(0.1, HIGHEST.get(name, 8.0), count).astype(dtype)
    held, out, peer_out = array(values), empty((count,), dtype), np.empty_like(values)
    function = kernel(name, count, dtype)
    return lambda: function(held, out), lambda: PEERS[name](values, out=peer_out)


if __name__ == "__main__":
    main()
