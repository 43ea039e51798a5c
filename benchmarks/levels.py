"""The speed of a product's inner loop, by the cache that its columns come from, beside products of the libraries.

    python benchmarks/levels.py [--threads 1|all] [--rounds 15] [--json]

A kernel of one tile: six rows of as many vectors as the registers hold sums for, its columns read straight on. It reads
them again and again, so that they come from the nearest cache that holds them. Nothing is packed, stored but once at
the end, or left over at an edge, so that no product of matrices that lie there can be much faster. Each thread has a
tile of its own.

All are timed in turns, in one process, each after a rest and 50 ms of warming up. On a shared machine the rates change
from minute to minute, with what others do on it: compare what stands in one output.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import kernels

ROWS, ELEMENT = 6, 4
KIB = (16, 64, 256, 1024, 4096, 65536)
LEAST_KIB = 16384  # read in a call, which takes a microsecond and more by itself
PRODUCTS = ("matmul 512×512×512", "matmul 509×1021×257")


@dataclass(frozen=True)
class Row:
    """Something timed: its call, and how many operations that is, of all threads together."""

    name: str
    call: Callable[[], Any]
    flops: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", default="1", choices=("1", "all"))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    cores = len(os.sched_getaffinity(0)) if args.threads == "all" else 1
    if os.environ.get(kernels.THREADS[0]) != str(cores):  # libraries read it when they are loaded
        os.environ.update(dict.fromkeys(kernels.THREADS, str(cores)))
        os.execv(sys.executable, [sys.executable, *sys.argv])
    rows = [*(tile(kib, cores) for kib in KIB), *libraries(cores)]
    with kernels.only_on(cores):
        times = kernels.in_turns({row.name: row.call for row in rows}, args.rounds)
    if not args.json:
        print(f"| {cores} thread{'s' * (cores > 1)}, GFLOP/s | median | best |\n|---|---:|---:|")
    for row in rows:
        middle, best = (row.flops / t / 1e9 for t in (statistics.median(times[row.name]), min(times[row.name])))
        if args.json:
            print(json.dumps({"name": row.name, "threads": cores, "gflops": middle, "best_gflops": best}))
        else:
            print(f"| {row.name} | {middle:.0f} | {best:.0f} |")


def tile(kib: int, threads: int) -> Row:
    """A tile for each thread, whose columns take `kib` KiB: out[t] = a · b[t]."""
    import numpy as np

    from compiler.driver.build import build
    from compiler.runtime.core.ndarray import array, empty
    from compiler.schedule.core.schedule import Schedule
    from compiler.target.target import Target
    from compiler.te.operation import compute, placeholder, reduce_axis
    from compiler.te.operation import sum as te_sum
    from compiler.te.prim_func import create_prim_func

    target = Target(f"llvm -num-cores={threads}").resolved()
    lanes = target.vector_bits // 8 // ELEMENT
    width = lanes * (4 if lanes >= 16 else 2)  # of 32 registers 24 hold sums, of 16 twelve
    depth = kib * 1024 // (width * ELEMENT)
    times = max(1, LEAST_KIB // kib)
    a, b = placeholder((ROWS, depth), name="A"), placeholder((threads, depth, width), name="B")
    again, k = reduce_axis((0, times), name="again"), reduce_axis((0, depth), name="k")
    out = compute((threads, ROWS, width), lambda t, i, j: te_sum(a[i, k] * b[t, k, j], axis=[again, k]), name="C")
    schedule = Schedule(create_prim_func([a, b, out]))
    block = schedule.get_block("C")
    sums = schedule.cache_write(block, 0, "local")
    thread, row, column, repeat, step = schedule.get_loops(block)
    vector, lane = schedule.split(column, factors=[None, lanes])
    schedule.reorder(thread, repeat, step, row, vector, lane)
    schedule.parallel(thread)
    schedule.reverse_compute_at(sums, thread)
    schedule.split(schedule.get_loops(sums)[-1], factors=[None, lanes])
    zeros = schedule.decompose_reduction(block, repeat)
    for each in (zeros, block, sums):  # all indices of a sum known: it is a register
        *_, row, vector, lane = schedule.get_loops(each)
        schedule.unroll(row)
        schedule.unroll(vector)
        schedule.vectorize(lane)
    rng = np.random.default_rng(0)
    given = [rng.standard_normal(shape).astype("float32") for shape in ((ROWS, depth), (threads, depth, width))]
    kernel = build(schedule.mod["main"], target=target)
    held = [*map(array, given), empty((threads, ROWS, width), "float32")]
    kernel(*held)
    np.testing.assert_allclose(held[-1].numpy() / times, given[0] @ given[1], rtol=1e-3, atol=1e-3 * depth**0.5)
    size = f"{kib} KiB" if kib < 1024 else f"{kib // 1024} MiB"
    return Row(f"columns of {size}", functools.partial(kernel, *held), 2.0 * times * threads * ROWS * depth * width)


def libraries(threads: int) -> list[Row]:
    found = []
    for case in kernels.cases():
        if case.name in PRODUCTS and (own := case.numpy) is not None:
            inputs = case.inputs()
            (m, k), n = inputs[0].shape, inputs[1].shape[1]
            calls: dict[str, Callable[[], Any]] = {"numpy": functools.partial(own, *inputs)}
            calls |= kernels.with_torch(case, inputs, threads)
            found += [Row(f"{case.name}, {who}", call, 2.0 * m * n * k) for who, call in calls.items()]
    return found


if __name__ == "__main__":
    main()
