"""How far Winograd's convolutions are from sums in float64, relative to the largest result.

    python benchmarks/winograd_errors.py [--seeds 5] [--size 16]

A row is a sketch's tile and a number of channels; its error is the largest of all results of a few random points. The
sketches are those of targets with AVX2 (tiles of 2×2) and AVX-512 (4×4); the code that computes is this machine's.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from compiler.driver.build import build
from compiler.runtime.core.ndarray import array
from compiler.schedule.core.schedule import apply_trace
from compiler.schedule.core.trace import Trace
from compiler.target.target import Target
from tuner.space.generate import generate
from tuner.workloads import WorkloadSpec

TARGETS = {"2×2": "x86-64-v3", "4×4": "x86-64-v4"}
CASES = (("2×2", 64), ("2×2", 512), ("4×4", 64), ("4×4", 256))


def exact(x: Any, w: Any) -> Any:
    """The convolution in float64, of images padded by one."""
    padded = np.pad(x[0].astype("float64"), ((0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    return np.einsum("cyxrs,kcrs->kyx", windows, w.astype("float64"), optimize=True)


def error(tile: str, channels: int, size: int, seeds: int) -> float:
    """The largest error of random points, a sketch and an input each."""
    func = WorkloadSpec.parse(f"conv2d:1,{channels},{size},{size},32,3,3").prim_func()
    target = Target(f"llvm -mtriple=x86_64-linux-gnu -mcpu={TARGETS[tile]} -num-cores=1")
    found = [sketch for sketch in generate(func, target) if sketch.name.startswith(f"winograd{tile[0]}")]
    if not found:
        raise SystemExit(f"no tiles of {tile} are offered at {size}x{size}: ask for a larger --size")
    (sketch,) = found
    worst = 0.0
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        shapes = [[int(size) for size in func.buffer_map[p].shape] for p in func.params]
        x, w, out = (rng.uniform(-1, 1, shape).astype("float32") for shape in shapes)
        point = sketch.random(rng, 64)
        assert point is not None
        scheduled = apply_trace(func, Trace.from_json(sketch.trace_json(point))).func
        held = [array(each) for each in (x, w, out)]
        build(scheduled, target="llvm", name="main")["main"](*held)
        wanted = exact(x, w)
        worst = max(worst, float(np.abs(held[-1].numpy()[0] - wanted).max() / np.abs(wanted).max()))
    return worst


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--size", type=int, default=16, help="rows and columns of the image")
    args = parser.parse_args()
    print("| tile | channels | largest error |\n|---|---:|---:|")
    for tile, channels in CASES:
        print(f"| {tile} | {channels} | {error(tile, channels, args.size, args.seeds):.1e} |", flush=True)


if __name__ == "__main__":
    main()
