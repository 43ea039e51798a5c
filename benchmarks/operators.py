"""Tuned operators of graphs that mostly move memory, beside numpy's forms, and torch's where it is installed.

    python benchmarks/operators.py                     two threads, 48 trials each
    python benchmarks/operators.py --only transpose --trials 16 --rounds 3

Each operator is legalised, tuned and built; then its kernel and the others are called in turns, in one process.
Milliseconds are medians of rounds, a round being the mean of several calls.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--only", default="", help="operators whose name contains this")
parser.add_argument("--trials", type=int, default=48)
parser.add_argument("--rounds", type=int, default=15)
parser.add_argument("--threads", type=int, default=2)
ARGS = parser.parse_args()
os.environ.update(dict.fromkeys(THREADS, str(ARGS.threads)))

import numpy as np  # noqa: E402  (reads the number of threads when it is imported)

from compiler.relax import op  # noqa: E402
from compiler.relax.block_builder import BlockBuilder  # noqa: E402
from compiler.relax.nodes import TensorStructInfo, Var  # noqa: E402
from compiler.runtime.core.ndarray import array, empty  # noqa: E402
from compiler.tir.nodes import PrimFunc  # noqa: E402
from tunefarm import IRModule, build, meta_schedule  # noqa: E402
from tunefarm.relax import transform  # noqa: E402
from tuner.errors import TuningError  # noqa: E402

Array = Any


@dataclass(frozen=True)
class Case:
    """One operator: its call, numpy's form and torch's, and the arrays that it is given."""

    call: Callable[..., Any]
    numpy: Callable[..., Array]
    torch: Callable[..., Any]
    arrays: tuple[Array, ...]


def main() -> None:
    torch = _torch()
    print("| operator | tuned, ms | numpy | torch |\n|---|---:|---:|---:|")
    for name, case in cases().items():
        if ARGS.only in name:
            print(f"| {name} | {' | '.join(measured(case, torch))} |", flush=True)


def cases() -> dict[str, Case]:
    rng = np.random.default_rng(0)

    def data(*shape: int) -> Array:
        return rng.standard_normal(shape).astype("float32")

    def softmax(a: Array) -> Array:
        powers = np.exp(a - a.max(-1, keepdims=True))
        return powers / powers.sum(-1, keepdims=True)

    def windows(a: Array, size: int, stride: int) -> Array:
        view = np.lib.stride_tricks.sliding_window_view(a, (size, size), (2, 3))
        return view[:, :, ::stride, ::stride]

    def norm(a: Array, g: Array, b: Array) -> Array:
        centred = a - a.mean(-1, keepdims=True)
        return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * g + b

    places = rng.integers(0, 30000, (8, 128))
    return {
        "global pooling, 2048×7²": Case(
            lambda x: op.mean(x, [2, 3]), lambda a: a.mean((2, 3)), lambda t, x: x.mean((2, 3)), (data(1, 2048, 7, 7),)
        ),
        "global pooling, 8×512×14²": Case(
            lambda x: op.nn.adaptive_avg_pool2d(x, 1), lambda a: a.mean((2, 3), keepdims=True),
            lambda t, x: t.nn.functional.adaptive_avg_pool2d(x, 1), (data(8, 512, 14, 14),),
        ),
        "max pooling 3×3/2, 64×112²": Case(
            lambda x: op.nn.max_pool2d(x, 3, 2), lambda a: windows(a, 3, 2).max((4, 5)),
            lambda t, x: t.nn.functional.max_pool2d(x, 3, 2), (data(1, 64, 112, 112),),
        ),
        "mean pooling 2×2/2, 256×28²": Case(
            lambda x: op.nn.avg_pool2d(x, 2, 2), lambda a: windows(a, 2, 2).mean((4, 5)),
            lambda t, x: t.nn.functional.avg_pool2d(x, 2, 2), (data(1, 256, 28, 28),),
        ),
        "transpose 1024×1024": Case(
            op.permute_dims, lambda a: np.ascontiguousarray(a.T), lambda t, x: x.T.contiguous(), (data(1024, 1024),)
        ),
        "NCHW to NHWC, 8×64×56²": Case(
            lambda x: op.permute_dims(x, [0, 2, 3, 1]), lambda a: np.ascontiguousarray(a.transpose(0, 2, 3, 1)),
            lambda t, x: x.permute(0, 2, 3, 1).contiguous(), (data(8, 64, 56, 56),),
        ),
        "heads first, 8×128×12×64": Case(
            lambda x: op.permute_dims(x, [0, 2, 1, 3]), lambda a: np.ascontiguousarray(a.transpose(0, 2, 1, 3)),
            lambda t, x: x.permute(0, 2, 1, 3).contiguous(), (data(8, 128, 12, 64),),
        ),
        "concatenation of 4, 64×56²": Case(
            lambda *x: op.concat(list(x), 1), lambda *a: np.concatenate(a, 1), lambda t, *x: t.cat(x, 1),
            tuple(data(1, 64, 56, 56) for _ in range(4)),
        ),
        "embedding, 8×128 of 30000×768": Case(
            lambda x, i: op.take(x, i, 0), lambda a, i: a[i], lambda t, x, i: x[i], (data(30000, 768), places)
        ),
        "softmax 4096×10": Case(op.nn.softmax, softmax, lambda t, x: t.softmax(x, -1), (data(4096, 10),)),
        "softmax 8×12×128×128": Case(op.nn.softmax, softmax, lambda t, x: t.softmax(x, -1), (data(8, 12, 128, 128),)),
        "layer_norm 1024×768": Case(
            lambda x, g, b: op.nn.layer_norm(x, g, b, -1), norm,
            lambda t, x, g, b: t.nn.functional.layer_norm(x, (768,), g, b), (data(1024, 768), data(768), data(768)),
        ),
        "the 5 largest of 128×1000": Case(
            lambda x: op.topk(x, 5, -1, "values"), lambda a: np.sort(np.partition(a, -5)[:, -5:])[:, ::-1],
            lambda t, x: t.topk(x, 5).values, (data(128, 1000),),
        ),
        "running sums of rows, 1024×1024": Case(
            lambda x: op.cumsum(x, 1), lambda a: a.cumsum(1), lambda t, x: x.cumsum(1), (data(1024, 1024),)
        ),
        "running sums of columns, 1024×1024": Case(
            lambda x: op.cumsum(x, 0), lambda a: a.cumsum(0), lambda t, x: x.cumsum(0), (data(1024, 1024),)
        ),
    }  # fmt: skip


def measured(case: Case, torch: Any) -> list[str]:
    """Milliseconds of our kernel, numpy and torch; the last two with how many times ours they are."""
    func, result = kernel(case), case.numpy(*case.arrays)
    module, out = tuned(func), empty(result.shape, str(result.dtype))
    held = [*map(array, case.arrays), out]
    module(*held)
    np.testing.assert_allclose(out.numpy(), result, rtol=1e-3, atol=1e-3)
    calls: list[Callable[[], Any]] = [lambda: module(*held), lambda: case.numpy(*case.arrays)]
    if torch is not None:
        tensors = [torch.from_numpy(a) for a in case.arrays]
        calls.append(lambda: case.torch(torch, *tensors))
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(ARGS.rounds):
        for call, found in zip(calls, times):
            found.append(round_of(call))
    own, *others = [1e3 * statistics.median(found) for found in times]
    return [f"{own:.3f}", *(f"{ms:.3f} ({ms / own:.2f}×)" for ms in others), *(["–"] if torch is None else [])]


def round_of(call: Callable[[], Any]) -> float:
    """Seconds a call takes, of as many as take some milliseconds, after one."""
    begin = time.perf_counter()
    call()
    count = max(1, min(50, int(0.005 / max(time.perf_counter() - begin, 1e-7))))
    begin = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - begin) / count


def kernel(case: Case) -> PrimFunc:
    """Return what the operator becomes."""
    params = [Var(f"x{i}", TensorStructInfo(a.shape, str(a.dtype))) for i, a in enumerate(case.arrays)]
    bb = BlockBuilder()
    with bb.function("main", params):
        bb.emit_func_output(bb.emit(case.call(*params)))
    made = transform.LegalizeOps()(bb.get())
    found: PrimFunc = next(func for name, func in made.functions.items() if name.name_hint != "main")
    return found.with_attr("global_symbol", "main")


def tuned(func: PrimFunc) -> Any:
    """The kernel by the best schedule of some trials; as it is, where there is nothing to schedule."""
    target = f"llvm -num-cores {ARGS.threads}"
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        try:
            found = meta_schedule.tune_tir(
                mod=func, target=target, max_trials_global=ARGS.trials, num_trials_per_iter=16, work_dir=folder
            )
        except TuningError:
            return build(func, target=target)
        schedule = meta_schedule.tir_integration.compile_tir(found, func, target)
    return build(schedule.mod if schedule is not None else IRModule({"main": func}), target=target)


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        return None
    torch.set_num_threads(ARGS.threads)
    torch.set_grad_enabled(False)
    return torch


if __name__ == "__main__":
    main()
