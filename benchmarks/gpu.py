"""Kernels tuned on this machine's GPU beside the vendor's: cuBLAS through its library, torch where it is installed.

    python benchmarks/gpu.py                        every workload, 64 trials each
    python benchmarks/gpu.py --only matmul --trials 256 --json
    python benchmarks/gpu.py --small --trials 2     to see that it runs

Without a GPU that PyCUDA can use it prints "not run" and why, and ends with 0.

Each workload is tuned by the engine on a private server of this machine. Then the best kernel and the others are timed
in this process, in turns, by events around many launches of each: medians. Data is random; rows of each result are
compared with numpy's in float64. Bandwidth is that of what has to be read and written once, beside a copy of as many
bytes within the device.
"""

from __future__ import annotations

import argparse
import ctypes
import ctypes.util
import json
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

Run = Callable[[], object]
_R_32F, _R_16F, _R_16BF, _R_8I, _R_32I = 0, 2, 14, 3, 10  # cudaDataType
_COMPUTE_32F, _COMPUTE_32I = 68, 72  # cublasComputeType_t
_TYPES = {"float32": _R_32F, "float16": _R_16F, "bfloat16": _R_16BF, "int8": _R_8I, "int32": _R_32I}
_CHECKED_ROWS = 8
_ROUNDS = 9
_SAMPLE_NS = 20_000_000


@dataclass(frozen=True)
class Case:
    """A workload, and the goal: a part of the speed of the vendor's library, or of the bandwidth of a copy."""

    name: str
    kind: str  # "product", "rows" or "elements"
    dtype: str
    sizes: tuple[int, ...]
    goal: float

    def small(self) -> Case:
        return Case(self.name, self.kind, self.dtype, tuple(min(size, 64) for size in self.sizes), self.goal)


CASES = (
    Case("matmul", "product", "float32", (4096, 4096, 4096), 0.9),
    Case("matmul", "product", "bfloat16", (4096, 4096, 4096), 0.85),
    Case("matmul", "product", "bfloat16", (8192, 8192, 8192), 0.85),
    Case("matmul", "product", "float16", (4096, 4096, 4096), 0.85),
    Case("matmul", "product", "float16", (8192, 8192, 8192), 0.85),
    Case("matmul", "product", "int8", (4096, 4096, 4096), 0.8),
    Case("triad", "elements", "float32", (1 << 28,), 0.9),
    Case("row_sum", "rows", "float32", (1 << 16, 1 << 12), 0.9),
    Case("softmax", "rows", "float32", (1 << 15, 1 << 12), 0.9),
    Case("layer_norm", "rows", "float32", (1 << 15, 1 << 12), 0.9),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="workloads whose names have this in them")
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--builders", type=int, default=8)
    parser.add_argument("--small", action="store_true", help="sizes of at most 64")
    parser.add_argument("--json", action="store_true", help="one JSON line a workload")
    args = parser.parse_args()
    from compiler.runtime.device import cuda

    if not cuda(0).exist:
        print(f"not run: {getattr(cuda(0).api, 'reason', 'this machine has no CUDA device')}")
        return 0
    place = cuda(0)
    print(f"{place.device_name}, sm {place.compute_version}, driver's CUDA {place.driver_version}", file=sys.stderr)
    if not args.json:
        print("| workload | tunefarm | cuBLAS | torch | copy | part | goal |\n|---|--:|--:|--:|--:|--:|--:|")
    for case in CASES:
        if args.only in f"{case.name} {case.dtype}":
            row = measure(case.small() if args.small else case, place, args.trials, args.builders)
            print(json.dumps(row) if args.json else line(row), flush=True)
    return 0


def line(row: dict[str, Any]) -> str:
    def number(name: str) -> str:
        return f"{row[name]:.0f}" if row.get(name) else "–"

    part = f"{row['part']:.2f}" if row["part"] else "–"
    what = f"{row['workload']}, {row['unit']}" + (f" ({row['problem']})" if row["problem"] else "")
    columns = " | ".join(number(name) for name in ("tunefarm", "cublas", "torch", "copy"))
    return f"| {what} | {columns} | {part} | {row['goal']} |"


def measure(case: Case, place: Any, trials: int, builders: int) -> dict[str, Any]:
    """What each reached, in GFLOP/s of products and GB/s of the others, and `part` of the best of the others."""
    from compiler.runtime.ndarray import array, empty

    func = function(case)
    inputs, output = data(case)
    kernel, problem = tuned(func, trials, builders)
    on_device = [
        array(x, place) if case.dtype != "bfloat16" else empty(x.shape, case.dtype, place).copyfrom(x) for x in inputs
    ]
    result = empty(output[0], output[1], place)
    runs: dict[str, Run] = {}
    if kernel is not None:
        runs["tunefarm"] = kernel.prepare((*on_device, result))
        runs["tunefarm"]()
        problem = wrong(case, inputs, result.numpy())
    if case.kind == "product" and (vendor := cublas()) is not None:
        runs["cublas"] = vendor.product(case, [x.handle.address for x in on_device], place)
    if (other := with_torch(case, inputs)) is not None:
        runs["torch"] = other
    moved = sum(x.handle.nbytes for x in on_device) + result.handle.nbytes
    if case.kind != "product":
        half = empty((moved // 2,), "uint8", place), empty((moved // 2,), "uint8", place)
        runs["copy"] = lambda: place.api.copy_within(place, half[0].handle, half[1].handle, moved // 2)
    work = 2.0 * np.prod(case.sizes, dtype=np.float64) if case.kind == "product" else float(moved)
    reached = {name: work / ns for name, ns in timed(runs, place).items()}
    beside = max((v for name, v in reached.items() if name in ("cublas", "copy")), default=0.0)
    beside = beside or reached.get("torch", 0.0)
    name = f"{case.name} {'×'.join(map(str, case.sizes))} {case.dtype}"
    unit = "GFLOP/s" if case.kind == "product" else "GB/s"
    part = reached["tunefarm"] / beside if beside and "tunefarm" in reached and not problem else None
    return {"workload": name, "unit": unit, **reached, "part": part, "goal": case.goal, "problem": problem}


def timed(runs: dict[str, Run], place: Any) -> dict[str, float]:
    """Nanoseconds a call, the median of rounds in turns."""
    driver, at = place.api.driver, place.device_id
    start, end = driver.event(at), driver.event(at)

    def sample(run: Run, count: int) -> float:
        driver.record(at, start, None)
        for _ in range(count):
            run()
        driver.record(at, end, None)
        driver.wait(at, end)
        return max(1, int(driver.elapsed_ns(at, start, end))) / count

    counts = {
        name: max(1, min(1000, int(_SAMPLE_NS / min(sample(run, 1), sample(run, 1))))) for name, run in runs.items()
    }
    found: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(_ROUNDS):
        for name, run in runs.items():
            found[name].append(sample(run, counts[name]))
    return {name: median(values) for name, values in found.items()}


# ------------------------------------------------------------------------------------ workloads


def function(case: Case) -> Any:
    from compiler import topi
    from compiler.te.operation import placeholder
    from compiler.te.prim_func import create_prim_func
    from tuner.workloads import WorkloadSpec

    if case.dtype == "int8":  # summed in int32
        m, n, k = case.sizes
        x, w = placeholder((m, k), "int8", name="x"), placeholder((n, k), "int8", name="w")
        return create_prim_func([x, w, topi.nn.dense(x, w, out_dtype="int32")])
    return WorkloadSpec(case.name, case.sizes, case.dtype).prim_func()


def data(case: Case) -> tuple[list[np.ndarray], tuple[tuple[int, ...], str]]:
    """Inputs, and the output's shape and dtype."""
    rng = np.random.default_rng(0)

    def floats(*shape: int) -> np.ndarray:
        found = rng.random(shape, dtype=np.float32) * 2 - 1
        return found.astype(np.float16) if case.dtype == "float16" else found

    if case.kind == "product":
        m, n, k = case.sizes
        if case.dtype == "int8":
            whole = [rng.integers(-8, 8, shape, dtype=np.int8) for shape in ((m, k), (n, k))]
            return whole, ((m, n), "int32")
        return [floats(m, k), floats(k, n)], ((m, n), case.dtype)
    if case.name == "triad":
        return [floats(*case.sizes), floats(*case.sizes)], (case.sizes, case.dtype)
    if case.name == "layer_norm":
        return [floats(*case.sizes), floats(case.sizes[1]), floats(case.sizes[1])], (case.sizes, case.dtype)
    return [floats(*case.sizes)], (case.sizes[:1] if case.name == "row_sum" else case.sizes, case.dtype)


def wrong(case: Case, inputs: list[np.ndarray], got: np.ndarray) -> str:
    """What is wrong with some rows of a result, by numpy in float64; "" for nothing."""
    rows = np.random.default_rng(1).integers(0, got.shape[0], _CHECKED_ROWS)
    first, *others = [
        x.astype(np.float64) if x.shape[0] != got.shape[0] else x[rows].astype(np.float64) for x in inputs
    ]
    if case.kind == "product":
        first = inputs[0][rows].astype(np.float64)
        second = inputs[1].astype(np.float64)
        wanted = first @ (second.T if case.dtype == "int8" else second)
    elif case.name == "triad":
        wanted = first + 3 * others[0]
    elif case.name == "row_sum":
        wanted = first.sum(1)
    elif case.name == "softmax":
        e = np.exp(first - first.max(1, keepdims=True))
        wanted = e / e.sum(1, keepdims=True)
    else:
        gamma, beta = (x.astype(np.float64) for x in inputs[1:])
        centred = first - first.mean(1, keepdims=True)
        wanted = centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5) * gamma + beta
    scale = np.sqrt(np.mean(wanted**2)) or 1.0
    error = float(np.abs(got[rows].astype(np.float64) - wanted).max() / scale)
    allowed = {"float32": 1e-4, "float16": 2e-3, "bfloat16": 1.6e-2, "int8": 0.0}[case.dtype]
    return "" if error <= allowed else f"wrong by {error:.1e} of the typical size"


def tuned(func: Any, trials: int, builders: int) -> tuple[Any, str]:
    """The best kernel of a run on a private server, loaded, or None and why."""
    from compiler.artifact import Artifact
    from compiler.driver import compile_artifact
    from compiler.runtime.module import load_artifact
    from compiler.schedule.trace import Trace, apply_trace
    from compiler.target import Target
    from tuner.builder import LocalBuilder
    from tuner.engine import TuningRun
    from tuner.fleets import LocalFleet
    from tuner.ledger import Ledger
    from tuner.options import RunOptions
    from tuner.progress import Silent
    from tuner.records.store import RecordStore
    from tuner.search.plan import sketch_search
    from tuner.task import TuningTask

    fleet = LocalFleet(gpu="0")
    builder = LocalBuilder(builders)
    try:
        with (
            tempfile.TemporaryDirectory() as folder,
            RecordStore.open(f"sqlite:///{folder}/r.db", create=True) as store,
        ):
            options = RunOptions(trials=trials, target=fleet.target(), run_timeout_s=30.0, builders=builders)
            task = TuningTask("gpu", func, Target(options.target))
            ledger = Ledger.create(store, [task], options, command="benchmarks/gpu.py")
            found = TuningRun([sketch_search(task)], fleet, builder, ledger, options, Silent()).run()
            best = store.best(task.key, str(task.target), None)
    finally:
        builder.close()
        fleet.close()
    if best is None or best.config is None:
        failures = dict(found.tasks[0].failures)
        return None, f"no kernel: {failures or found.tasks[0].error}"
    artifact = compile_artifact(apply_trace(func, Trace.from_json(best.config.trace)).func, task.target, name="main")
    return load_artifact(Artifact.from_bytes(artifact.to_bytes()))["main"], ""


# --------------------------------------------------------------------------------- what others do


class Cublas:
    """cublasGemmEx on memory of ours, in our context."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        self._handle = ctypes.c_void_p()
        check(library.cublasCreate_v2(ctypes.byref(self._handle)), "cublasCreate")

    def product(self, case: Case, addresses: list[int], place: Any) -> Run:
        """C = A B, of rows: as cuBLAS sees it, Cᵗ = Bᵗ Aᵗ, of columns."""
        from compiler.runtime.ndarray import empty

        m, n, k = case.sizes
        whole = case.dtype == "int8"
        out = empty((m, n), "int32" if whole else case.dtype, place)
        number = ctypes.c_int32 if whole else ctypes.c_float
        one, zero = number(1), number(0)
        kind, compute = _TYPES[case.dtype], _COMPUTE_32I if whole else _COMPUTE_32F
        a, b = (ctypes.c_void_p(address) for address in addresses)

        def run() -> None:
            check(
                self._library.cublasGemmEx(
                    self._handle, int(whole), 0, n, m, k, ctypes.byref(one), b, kind, k if whole else n, a, kind, k,
                    ctypes.byref(zero), ctypes.c_void_p(out.handle.address), _TYPES[out.dtype], n, compute, -1,
                ),
                "cublasGemmEx",
            )  # fmt: skip

        return run


def check(status: int, what: str) -> None:
    if status:
        raise SystemExit(f"{what} failed with status {status}")


def cublas() -> Cublas | None:
    """cuBLAS of the toolkit, or of the wheel nvidia-cublas; None where there is none."""
    packages = Path(sysconfig.get_path("purelib"))
    wheels = [str(p) for pattern in ("nvidia/cublas/lib/libcublas.so.*", "nvidia/cu*/lib/libcublas.so.*")
              for p in sorted(packages.glob(pattern))]  # fmt: skip
    for name in (*wheels, ctypes.util.find_library("cublas")):
        if name:
            try:
                return Cublas(ctypes.CDLL(name))
            except OSError:
                continue
    return None


def with_torch(case: Case, inputs: list[np.ndarray]) -> Run | None:
    try:
        import torch
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    torch.backends.cuda.matmul.allow_tf32 = False
    given = [torch.from_numpy(x).cuda() for x in inputs]
    if case.dtype == "bfloat16":
        given = [x.bfloat16() for x in given]
    size = given[0].shape[-1:]
    match case.name:
        case "matmul":
            other = given[1].t() if case.dtype == "int8" else given[1]
            return lambda: (torch._int_mm if case.dtype == "int8" else torch.matmul)(given[0], other)
        case "triad":
            return lambda: torch.add(given[0], given[1], alpha=3)
        case "row_sum":
            return lambda: given[0].sum(1)
        case "softmax":
            return lambda: torch.softmax(given[0], 1)
        case _:
            return lambda: torch.nn.functional.layer_norm(given[0], size, given[1], given[2])


if __name__ == "__main__":
    sys.exit(main())
