"""Where compile time goes, pass by pass, and what the kernel is worth.

    python benchmarks/compile_time.py

Register-tiled, packed float32 matmuls by a fixed schedule: one whose tiles divide the shape, and one with edges on
every axis. For each: CPU milliseconds a pass (medians), and the kernel's speed on one thread over numpy's on one
thread, measured alternately in this run.
"""

from __future__ import annotations

import os
import statistics
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from compiler.codegen.effort import effort_for
from compiler.codegen.llvm import compile_text, options_for
from compiler.codegen.module import llvm_text
from compiler.driver import compile_artifact
from compiler.lower.pipeline import passes
from compiler.runtime.module import load_artifact
from compiler.runtime.ndarray import array
from compiler.runtime.threads import set_num_threads
from compiler.schedule.schedule import Schedule
from compiler.target import Target
from compiler.te.operation import compute, placeholder
from compiler.te.prim_func import create_prim_func
from compiler.te.reduction import reduce_axis
from compiler.te.reduction import sum as te_sum
from compiler.tir.nodes import PrimFunc

ROUNDS = 15


def main() -> None:
    target = Target.host()
    set_num_threads(1)
    lanes = target.vector_bits // 32
    tile = (14, 2 * lanes) if target.vector_registers >= 32 else (6, 2 * lanes)
    for size in (tile[0] * 40, tile[0] * 40 + 1):
        func = tiled_matmul(size, tile)
        report(size, tile, phases(func, target), kernel_ratio(func, size, target))


def tiled_matmul(size: int, tile: tuple[int, int]) -> PrimFunc:
    """C = A @ B: the panel of B packed, a register tile accumulated in a local array."""
    a, b = placeholder((size, size), name="A"), placeholder((size, size), name="B")
    k = reduce_axis((0, size), name="k")
    c = compute((size, size), lambda i, j: te_sum(a[i, k] * b[k, j], axis=k), name="C")
    sch = Schedule(create_prim_func([a, b, c]))
    block = sch.get_block("C")
    i, j, r = sch.get_loops(block)
    (i0, i1), (j0, j1), (k0, k1) = sch.split(i, [None, tile[0]]), sch.split(j, [None, tile[1]]), sch.split(r, [None, 4])
    sch.reorder(j0, i0, k0, k1, i1, j1)
    cache = sch.cache_write(block, 0, "local")
    sch.reverse_compute_at(cache, i0)
    panel = sch.cache_read(block, 1, "global")
    sch.compute_at(panel, j0)
    for loop in (j1, sch.get_loops(cache)[-1], sch.get_loops(panel)[-1]):
        sch.vectorize(loop)
    sch.unroll(i1)
    sch.unroll(k1)
    return sch.func


def phases(func: PrimFunc, target: Target) -> dict[str, float]:
    """Median CPU milliseconds of each pass, of writing LLVM's text, and of LLVM."""
    spent: dict[str, list[float]] = {}

    def timed(name: str, start: float) -> None:
        spent.setdefault(name, []).append(1e3 * (time.process_time() - start))

    for _ in range(ROUNDS):
        lowered = func
        for step in passes(target.vector_bits):
            start = time.process_time()
            lowered = step.run(lowered)
            timed(step.name, start)
        start = time.process_time()
        text = llvm_text({"main": lowered}, options_for(target))
        timed("LLVM text", start)
        start = time.process_time()
        compile_text(text, target, effort_for(lowered))
        timed("LLVM", start)
    return {name: statistics.median(times) for name, times in spent.items()}


def kernel_ratio(func: PrimFunc, size: int, target: Target) -> tuple[float, float]:
    """(GFLOP/s, ratio to numpy's): medians over rounds that alternate between the two."""
    module = load_artifact(compile_artifact(func, target, name="main"))
    rng = np.random.default_rng(0)
    a, b = (rng.random((size, size), np.float32) for _ in range(2))
    x, y, z = array(a), array(b), array(np.zeros((size, size), np.float32))
    kernel = module["main"]
    ratios, speeds = [], []
    for _ in range(ROUNDS):
        own = _once(lambda: kernel(x, y, z))
        peer = _once(lambda: a @ b)
        ratios.append(peer / own)
        speeds.append(2e-9 * size**3 / own)
    np.testing.assert_allclose(z.numpy(), a @ b, rtol=1e-3)
    return statistics.median(speeds), statistics.median(ratios)


def _once(call: object) -> float:
    assert callable(call)
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def report(size: int, tile: tuple[int, int], times: dict[str, float], speed: tuple[float, float]) -> None:
    print(f"matmul {size}x{size}x{size} float32, tile {tile[0]}x{tile[1]}: {sum(times.values()):.1f} ms")
    for name, spent in times.items():
        print(f"    {name:28}{spent:8.2f} ms")
    print(f"    kernel, one thread          {speed[0]:8.1f} GFLOP/s, {speed[1]:.2f} of numpy on one thread\n")


if __name__ == "__main__":
    main()
