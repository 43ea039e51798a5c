"""How near memory-bound kernels come to the speed at which this machine copies memory.

    python benchmarks/roofline.py [--mib 64] [--rounds 15] [--threads 1,all] [--only NAME]

Every kernel moves at least its inputs and outputs, each once; that many bytes over its time is its bandwidth. The
time is that in the middle; on one thread it is the least CPU time, which a busy machine disturbs less.
There are two yardsticks, both counted in the same way: read once, written once. "Of copy" is relative to the faster
of numpy's copy and a copy kernel of our own, both with ordinary stores (what memcpy does here, at this size): the CPU
also reads each line before it writes it, which is not counted. "Streaming" is relative to our copy kernel as `topi`
schedules it, which stores past the caches and so need not read what it writes. A kernel that only reads cannot come
near that one: it is bound by how much a core can read, and a copy counts its writes too.

All kernels, and numpy's and (where it is installed) torch's forms of them, are timed in turns in one process, so that
what else the machine does falls on all of them alike. "cores" is CPU time over time: on a busy machine the pool of
threads may have given a core up, and then the numbers for several threads are in truth for fewer.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from compiler import topi
from compiler.driver.build import build
from compiler.runtime.core.ndarray import array
from compiler.runtime.core.threads import num_threads, set_num_threads
from compiler.target.target import Target
from compiler.te.operation import placeholder
from compiler.te.schedule.schedule import create_schedule
from compiler.te.tensor import Tensor
from compiler.topi.schedules import generic

try:
    import torch
except ImportError:
    torch = None

COLUMNS = 4096
ORDINARY, STREAMING = "copy, ordinary", "copy, streaming"


@dataclass(frozen=True)
class Case:
    """A kernel, and what numpy and torch call for it."""

    name: str
    inputs: tuple[tuple[int, ...], ...]
    make: Callable[..., Any]
    schedule: Callable[..., Any]
    numpy: Callable[..., Any]
    torch: Callable[..., Any] | None = None


def ordinary(target: Target, outs: list[Tensor]) -> Any:
    """Chunks in parallel, four vectors at a time, through the caches."""
    schedule = create_schedule([outs[0].op])
    stage = schedule[outs[0]]
    chunk, elements = stage.split(stage.fuse(*stage.op.axis), factor=1 << 14)
    stage.parallel(chunk)
    stage.vectorize(stage.split(elements, factor=4 * target.vector_bits // 32)[1])
    return schedule


def cases(rows: int) -> list[Case]:
    """All kernels, on a float32 matrix of `rows` rows of 4096."""
    x, row = (rows, COLUMNS), (COLUMNS,)
    injective, reduce = generic.schedule_injective, generic.schedule_reduce
    return [
        Case(ORDINARY, (x,), topi.identity, ordinary, np.copy, lambda a: a.clone()),
        Case(STREAMING, (x,), topi.identity, injective, np.copy, lambda a: a.clone()),
        Case("a + b", (x, x), topi.add, injective, np.add, lambda a, b: a + b),
        Case("relu(a * 2 + 1)", (x,), _chain, injective, lambda a: np.maximum(a * 2 + 1, 0)),
        Case("exp", (x,), topi.exp, injective, np.exp, lambda a: a.exp()),
        Case("sum of rows", (x,), lambda a: topi.sum(a, -1), reduce, lambda a: a.sum(-1), lambda a: a.sum(-1)),
        Case("sum of columns", (x,), lambda a: topi.sum(a, 0), reduce, lambda a: a.sum(0), lambda a: a.sum(0)),
        Case("sum of all", (x,), topi.sum, reduce, np.sum, lambda a: a.sum()),
        Case("max of rows", (x,), lambda a: topi.max(a, -1), reduce, lambda a: a.max(-1), lambda a: a.amax(-1)),
        Case("softmax", (x,), topi.nn.softmax, generic.schedule_softmax, _softmax, lambda a: a.softmax(-1)),
        Case("layer_norm", (x, row, row), topi.nn.layer_norm, generic.schedule_layer_norm, _layer_norm, _torch_norm),
    ]


def _chain(a: Any) -> Any:
    return topi.nn.relu(topi.add(topi.multiply(a, 2.0), 1.0))


def _softmax(a: np.ndarray) -> np.ndarray:
    e = np.exp(a - a.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _layer_norm(a: np.ndarray, gamma: np.ndarray, beta: np.ndarray) -> np.ndarray:
    return (a - a.mean(-1, keepdims=True)) / np.sqrt(a.var(-1, keepdims=True) + 1e-5) * gamma + beta


def _torch_norm(a: Any, gamma: Any, beta: Any) -> Any:
    return torch.nn.functional.layer_norm(a, (COLUMNS,), gamma, beta)


@dataclass(frozen=True)
class Runs:
    """One kernel's calls, and the bytes it must move."""

    case: Case
    moved: int
    calls: dict[str, Callable[[], Any]]


def prepare(case: Case, target: Target, rng: np.random.Generator) -> Runs:
    """Build the kernel and check its result against numpy's."""
    arrays = [rng.standard_normal(shape).astype("float32") for shape in case.inputs]
    tensors = [placeholder(shape, name=f"X{i}") for i, shape in enumerate(case.inputs)]
    output = case.make(*tensors)
    kernel = build(case.schedule(target, [output]), [*tensors, output], target=target)
    expected = case.numpy(*arrays)
    result = array(np.zeros(np.shape(expected), "float32"))
    mine = [*map(array, arrays), result]
    kernel(*mine)
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-3, atol=1e-2 * max(1.0, float(np.std(expected))))
    calls: dict[str, Callable[[], Any]] = {"ours": lambda: kernel(*mine), "numpy": lambda: case.numpy(*arrays)}
    if torch is not None and case.torch is not None:
        theirs, other = [torch.from_numpy(a) for a in arrays], case.torch
        calls["torch"] = lambda: other(*theirs)
    return Runs(case, sum(a.nbytes for a in arrays) + int(np.asarray(expected).nbytes), calls)


Key = tuple[str, str]


def measure(
    calls: dict[Key, Callable[[], Any]], rounds: int, threads: int
) -> tuple[dict[Key, float], dict[Key, float]]:
    """Seconds of each call, all taken in turns, and how many cores each kept busy."""
    times: dict[Key, list[float]] = {key: [] for key in calls}
    busy: dict[Key, list[float]] = {key: [] for key in calls}
    for _ in range(rounds):
        for key, call in calls.items():
            begin, used = time.perf_counter(), time.process_time()
            call()
            busy[key].append(time.process_time() - used)
            times[key].append(time.perf_counter() - begin)
    cores = {key: sum(busy[key]) / sum(taken) for key, taken in times.items()}
    if threads == 1:
        return {key: min(used) for key, used in busy.items()}, cores
    return {key: statistics.median(taken) for key, taken in times.items()}, cores


def table(runs: list[Runs], source: np.ndarray, rounds: int) -> None:
    """Measure and print, for the number of threads that is set."""
    goal = np.empty_like(source)
    calls: dict[Key, Callable[[], Any]] = {("np.copyto", "numpy"): lambda: np.copyto(goal, source)}
    for run in runs:
        calls |= {(run.case.name, who): call for who, call in run.calls.items()}
    took, cores = measure(calls, rounds, num_threads())
    copied = min(took["np.copyto", "numpy"], took[ORDINARY, "ours"])
    roof, streaming = (2 * source.nbytes / best / 1e9 for best in (copied, took[STREAMING, "ours"]))
    print(f"\n{num_threads()} threads; copying moves {roof:.1f} GB/s (np.copyto takes "
          f"{took['np.copyto', 'numpy'] * 1e3:.2f} ms, ours {took[ORDINARY, 'ours'] * 1e3:.2f} ms), past the caches "
          f"{streaming:.1f} GB/s")  # fmt: skip
    print(f"{'kernel':18} {'ms':>8} {'GB/s':>7} {'of copy':>8} {'streaming':>9} {'cores':>6} {'numpy ms':>9}"
          f" {'torch ms':>9}")  # fmt: skip
    for run in runs:
        name = run.case.name
        mine = took[name, "ours"]
        speed = run.moved / mine / 1e9
        other = "".join(
            f" {took[name, who] * 1e3:9.2f}" if (name, who) in took else f" {'-':>9}" for who in ("numpy", "torch")
        )
        print(f"{name:18} {mine * 1e3:8.2f} {speed:7.1f} {speed / roof:8.2f} {speed / streaming:9.2f} "
              f"{cores[name, 'ours']:6.2f}{other}")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--mib", type=int, default=64, help="size of a matrix, MiB")
    parser.add_argument("--rounds", type=int, default=15, help="times each kernel is timed")
    parser.add_argument("--only", default="", help="kernels whose names have this in them, and the copies")
    parser.add_argument("--threads", default="1,all", help="numbers of threads, or all")
    options = parser.parse_args()
    target, rng = Target("llvm").resolved(), np.random.default_rng(0)
    rows = options.mib * 2**20 // 4 // COLUMNS
    chosen = [case for case in cases(rows) if options.only in case.name or case.name in (ORDINARY, STREAMING)]
    runs = [prepare(case, target, rng) for case in chosen]
    source, everything = rng.standard_normal((rows, COLUMNS)).astype("float32"), num_threads()
    print(f"float32, matrices of {options.mib} MiB, {target}")
    for text in options.threads.split(","):
        count = everything if text == "all" else int(text)
        set_num_threads(count)
        if torch is not None:
            torch.set_num_threads(count)
        table(runs, source, options.rounds)
    set_num_threads(everything)


if __name__ == "__main__":
    main()
