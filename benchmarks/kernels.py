"""Tuned kernels beside what one would call instead: OpenBLAS through numpy, oneDNN through torch where it is installed.

    python benchmarks/kernels.py                                  a small subset, 64 trials each, one thread
    python benchmarks/kernels.py --all --trials 1000 --threads all
    python benchmarks/kernels.py --only conv2d --only int8 --json one JSON line a workload

Each workload is tuned by the engine on a private server of this machine. Then the best kernel, numpy's and torch's
forms of it are timed in one process, in turns, with the same number of threads: medians, after a rest, because the idle
threads of others spin for a while, and 50 ms of warming up, because a core that rested needs tens of them for its
clock. The table is Markdown; benchmarks/results/kernels-avx512.md takes it in by

    python benchmarks/kernels.py --all --trials 1000 --write benchmarks/results/kernels-avx512.md

and with `--only`, rows of it are made anew.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import kernel_table

THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
REST_S, WARM_S, TIMED_S = 0.2, 0.05, 0.02
LONG_S = 20.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="every workload, not the small subset")
    parser.add_argument("--only", action="append", default=[], help="workloads whose names have this in them; often")
    parser.add_argument("--threads", default="1", choices=("1", "all"))
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--seeds", type=int, default=1, help="tune so often; the run in the middle counts")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--write", type=Path, help="put the table, or rows of it, into this file, between its marks")
    args = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))[: 1 if args.threads == "1" else None]
    if os.environ.get(THREADS[0]) != str(len(cores)):  # libraries read it when they are loaded
        os.environ.update(dict.fromkeys(THREADS, str(len(cores))))
        os.execv(sys.executable, [sys.executable, *sys.argv])
    known = cases()
    wanted = args.only or [""]
    rows = []
    for case in (c for c in known if any(part in c.name for part in wanted) and (args.all or args.only or c.small)):
        row = measure(case, len(cores), args.trials, args.seeds, args.rounds)
        rows.append(row)
        print(json.dumps(row) if args.json else kernel_table.line(row), flush=True)
    if args.write is not None and rows:
        kernel_table.write(args.write, rows, [case.name for case in known], keep=bool(args.only))


# ------------------------------------------------------------------------------------ workloads


class Case:
    """A workload: its function, its inputs' shapes, and the same in numpy and torch. Of inputs (tensors or arrays)
    `make` gives te's output, `numpy` and `torch` what a user would call."""

    def __init__(
        self, name: str, shapes: list[tuple[int, ...]], make: Callable[..., Any], numpy: Callable[..., Any] | None,
        torch: Callable[..., Any] | None = None, small: bool = False, dtype: str = "float32",
    ) -> None:  # fmt: skip
        self.name, self.shapes, self.make, self.dtype = name, shapes, make, dtype
        self.numpy, self.torch, self.small = numpy, torch, small

    def func(self) -> Any:
        from compiler.te.operation import placeholder
        from compiler.te.prim_func import create_prim_func

        inputs = [placeholder(shape, self.dtype, name=f"X{i}") for i, shape in enumerate(self.shapes)]
        return create_prim_func([*inputs, self.make(*inputs)])

    def inputs(self) -> list[Any]:
        """Some numbers; bfloat16 is made of float32."""
        import numpy as np

        rng = np.random.default_rng(0)
        if self.dtype == "int8":
            return [rng.integers(-128, 128, shape).astype("int8") for shape in self.shapes]
        return [rng.standard_normal(shape).astype("float32") for shape in self.shapes]


def cases() -> list[Case]:
    """The workloads of the project's goals; float32, where they don't say more."""
    import numpy as np

    from compiler import topi
    from compiler.topi import nn

    matmul = [(512, 512, 512), (1024, 1024, 1024), (2048, 2048, 2048), (509, 1021, 257)]
    matmul += [(m, 4096, 4096) for m in (1, 4, 16)]
    small = {(512, 512, 512), (509, 1021, 257), (4, 4096, 4096)}
    found = [
        Case(f"matmul {m}×{n}×{k}", [(m, k), (k, n)], nn.matmul, np.matmul, lambda a, b: a @ b, (m, n, k) in small)
        for m, n, k in matmul
    ]
    found += [
        Case("batch_matmul 12×128×64×128", [(12, 128, 128), (12, 128, 64)],
             lambda a, b: nn.batch_matmul(a, b, transpose_b=False), np.matmul, lambda a, b: a @ b),
        Case("matmul 512³ + bias, relu", [(512, 512), (512, 512), (512,)],
             lambda a, b, c: nn.relu(topi.add(nn.matmul(a, b), c)), lambda a, b, c: np.maximum(a @ b + c, 0),
             lambda a, b, c: (a @ b + c).relu(), True),
        Case("matmul 512³ + bias, relu, to float16", [(512, 512), (512, 512), (512,)],
             lambda a, b, c: topi.cast(nn.relu(topi.add(nn.matmul(a, b), c)), "float16"),
             lambda a, b, c: np.maximum(a @ b + c, 0).astype("float16"), lambda a, b, c: (a @ b + c).relu().half()),
    ]  # fmt: skip
    for dtype, wide, theirs in (("bfloat16", "float32", lambda a, b: a @ b), ("int8", "int32", int_matmul)):
        found += [
            Case(f"matmul {n}³, {dtype}", [(n, n)] * 2, wide_matmul(wide), None, theirs, dtype=dtype)
            for n in (1024, 2048)
        ]
    for name, *sizes in RESNET50:
        found.append(convolution(name, *sizes))
    for channels, height, stride in ((32, 112, 1), (64, 112, 2), (128, 56, 1), (256, 28, 1), (512, 14, 1)):
        found.append(depthwise(channels, height, stride))
    square, rows, last = [(4096, 4096)], [(128, 4096)], [(512, 1024), (1024,), (1024,)]
    found += [
        Case("softmax 128×4096", rows, nn.softmax, softmax, lambda a: a.softmax(-1), True),
        Case("layer_norm 512×1024", last, nn.layer_norm, layer_norm, torch_norm, True),
        Case("sum of rows 4096×4096", square, lambda a: topi.sum(a, -1), lambda a: a.sum(-1), lambda a: a.sum(-1)),
        Case("sum of columns 4096×4096", square, lambda a: topi.sum(a, 0), lambda a: a.sum(0), lambda a: a.sum(0)),
        Case("sum of all 4096×4096", square, topi.sum, lambda a: a.sum(), lambda a: a.sum()),
    ]  # fmt: skip
    return found


RESNET50 = (  # name, channels, height, filters, kernel, stride
    ("stem", 3, 224, 64, 7, 2), ("1.a", 64, 56, 64, 1, 1), ("1.b", 64, 56, 64, 3, 1),
    ("1.c", 64, 56, 256, 1, 1), ("1.d", 256, 56, 64, 1, 1), ("2.a", 256, 56, 128, 1, 1),
    ("2.b", 128, 56, 128, 3, 2), ("2.c", 128, 28, 512, 1, 1), ("2.down", 256, 56, 512, 1, 2),
    ("2.d", 512, 28, 128, 1, 1), ("2.e", 128, 28, 128, 3, 1), ("3.a", 512, 28, 256, 1, 1),
    ("3.b", 256, 28, 256, 3, 2), ("3.c", 256, 14, 1024, 1, 1), ("3.down", 512, 28, 1024, 1, 2),
    ("3.d", 1024, 14, 256, 1, 1), ("3.e", 256, 14, 256, 3, 1), ("4.a", 1024, 14, 512, 1, 1),
    ("4.b", 512, 14, 512, 3, 2), ("4.c", 512, 7, 2048, 1, 1), ("4.down", 1024, 14, 2048, 1, 2),
    ("4.d", 2048, 7, 512, 1, 1), ("4.e", 512, 7, 512, 3, 1),
)  # fmt: skip


def convolution(name: str, channels: int, height: int, filters: int, kernel: int, stride: int) -> Case:
    from compiler.topi import nn

    how = {"stride": stride, "padding": kernel // 2}
    return Case(
        f"conv2d {name}: {channels}×{height}², {filters} of {kernel}×{kernel}/{stride}",
        [(1, channels, height, height), (filters, channels, kernel, kernel)],
        lambda x, w: nn.conv2d_nchw(x, w, dilation=1, **how), None,
        lambda x, w: torch_conv(x, w, **how), name in ("1.b", "3.e"),
    )  # fmt: skip


def depthwise(channels: int, height: int, stride: int) -> Case:
    from compiler.topi import nn

    return Case(
        f"depthwise 3×3/{stride}: {channels}×{height}²", [(1, channels, height, height), (channels, 1, 3, 3)],
        lambda x, w: nn.depthwise_conv2d_nchw(x, w, stride=stride, padding=1), None,
        lambda x, w: torch_conv(x, w, stride=stride, padding=1, groups=channels), channels == 128,
    )  # fmt: skip


def wide_matmul(dtype: str) -> Callable[[Any, Any], Any]:
    """The product of two matrices, summed in `dtype`."""
    from compiler.te.operation import compute, reduce_axis
    from compiler.te.operation import sum as te_sum

    def make(a: Any, b: Any) -> Any:
        k = reduce_axis((0, a.shape[1]), name="k")
        shape = (a.shape[0], b.shape[1])
        return compute(shape, lambda i, j: te_sum(a[i, k].astype(dtype) * b[k, j].astype(dtype), axis=k))

    return make


def int_matmul(a: Any, b: Any) -> Any:
    import torch

    return torch._int_mm(a, b)


def softmax(a: Any) -> Any:
    import numpy as np

    e = np.exp(a - a.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def layer_norm(a: Any, gamma: Any, beta: Any) -> Any:
    return (a - a.mean(-1, keepdims=True)) / (a.var(-1, keepdims=True) + 1e-5) ** 0.5 * gamma + beta


def torch_norm(a: Any, gamma: Any, beta: Any) -> Any:
    import torch

    return torch.nn.functional.layer_norm(a, gamma.shape, gamma, beta)


def torch_conv(x: Any, w: Any, **how: Any) -> Any:
    import torch

    return torch.nn.functional.conv2d(x, w, **how)


# ---------------------------------------------------------------------------------- measurement


def measure(case: Case, threads: int, trials: int, seeds: int, rounds: int) -> dict[str, Any]:
    """Tune `case` once for each seed, then time the kernels and their peers in turns. "tunefarm" is the kernel of the
    run in the middle."""

    from compiler.runtime.core.ndarray import array, empty
    from compiler.target.target import Target
    from compiler.tir.ops import as_int
    from tuner.task import count_flops

    func, target = case.func(), Target(f"llvm -num-cores={threads}").resolved()
    start = time.perf_counter()
    runs = [tuned(func, target, trials, seed) for seed in range(seeds)]
    kernels = {f"seed {seed}": kernel for seed, kernel in enumerate(runs) if kernel is not None}
    seconds = (time.perf_counter() - start) / seeds
    about = {"workload": case.name, "threads": threads, "trials": trials, "seeds": seeds, "tuning_s": seconds}
    if len(kernels) < seeds:
        return {**about, "ms": {}}
    inputs, result = case.inputs(), func.buffer_map[func.params[-1]]
    out = empty(tuple(as_int(s) for s in result.shape), result.dtype)
    held = [*(array(x, dtype=case.dtype) for x in inputs), out]
    calls: dict[str, Callable[[], Any]] = {who: functools.partial(kernel, *held) for who, kernel in kernels.items()}
    if (own := case.numpy) is not None:
        calls["numpy"] = lambda: own(*inputs)
    calls |= with_torch(case, inputs, threads)
    with only_on(threads):
        times = {who: statistics.median(samples) for who, samples in in_turns(calls, rounds).items()}
    each = [times.pop(who) for who in kernels]
    peer = min(times.values(), default=float("nan"))
    times["tunefarm"] = statistics.median_high(each)
    return {
        **about, "gflops": count_flops(func) / times["tunefarm"] / 1e9, "ms": {w: t * 1e3 for w, t in times.items()},
        "ratio": peer / times["tunefarm"], "ratios": [peer / one for one in each],
    }  # fmt: skip


def tuned(func: Any, target: Any, trials: int, seed: int) -> Callable[..., Any] | None:
    """The best kernel of a run, loaded; None when nothing was measured."""
    from compiler.driver.build import compile_artifact
    from compiler.ir.module import IRModule
    from compiler.runtime.load import load_artifact
    from tuner.faces.meta_schedule.tune import tune_tir

    mod = IRModule({"main": func})
    with tempfile.TemporaryDirectory() as folder:
        best = tune_tir(mod, target, folder, trials, seed=seed).query_schedule(mod, target)
    return None if best is None else load_artifact(compile_artifact(best.func, target, name="main"))["main"]


def with_torch(case: Case, inputs: list[Any], threads: int) -> dict[str, Callable[[], Any]]:
    try:
        import torch
    except ImportError:
        return {}
    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    call, tensors = case.torch, [torch.from_numpy(a).to(getattr(torch, case.dtype)) for a in inputs]
    return {} if call is None else {"torch": lambda: call(*tensors)}


@contextlib.contextmanager
def only_on(count: int) -> Iterator[None]:
    """This process on so many cores, with as many threads. Not while it tunes: builders would share the core that is
    measured on."""
    from compiler.runtime.core.threads import num_threads, set_num_threads

    before, threads = os.sched_getaffinity(0), num_threads()
    os.sched_setaffinity(0, set(sorted(before)[-count:]))
    set_num_threads(count)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
        set_num_threads(threads)


def in_turns(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """Seconds a call; in each round every side rests, warms up until its core has its clock again, and is timed. Calls
    of seconds, as oneDNN's of bfloat16 where the processor has no instructions for it, have fewer rounds."""
    times: dict[str, list[float]] = {who: [] for who in calls}
    once, both = {}, 0.0
    for who, call in calls.items():
        start = time.perf_counter()
        call()
        call()
        once[who] = (time.perf_counter() - start) / 2
        both += max(once[who], WARM_S) + max(once[who], TIMED_S)
    rounds = max(3, min(rounds, int(LONG_S / both)))
    for _ in range(rounds):
        for who, call in calls.items():
            time.sleep(REST_S)
            repeated(call, once[who], WARM_S)
            times[who].append(repeated(call, once[who], TIMED_S))
    return times


def repeated(call: Callable[[], Any], once: float, seconds: float) -> float:
    """Seconds a call, of as many as take `seconds`."""
    number = max(1, round(seconds / once))
    start = time.perf_counter()
    for _ in range(number):
        call()
    return (time.perf_counter() - start) / number


if __name__ == "__main__":
    main()
