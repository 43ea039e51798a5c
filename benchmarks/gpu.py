"""Kernels tuned on this machine's GPU beside the vendor's: cuBLAS through its library, torch where it is installed.

    python benchmarks/gpu.py                        every workload, 64 trials each
    python benchmarks/gpu.py --only matmul --trials 256 --json
    python benchmarks/gpu.py --small --trials 2     to see that it runs

Without a GPU that PyCUDA can use it prints "not run" and why, and ends with 0.

Each workload is tuned by the engine on a private server of this machine. Then the best kernel and the others are timed
in this process, in turns, by events around many launches of each: medians. Data is random; rows of each result are
compared with numpy's in float64. Bandwidth is that of what has to be read and written once, beside a copy of as many
bytes within the device. Beside `dense_relu`, cuBLAS computes the product only.
"""

from __future__ import annotations

import argparse
import ctypes
import ctypes.util
import json
import sys
import sysconfig
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from gpu_parts.cases import CASES, PRODUCTS, Case, Run, data, function, with_torch, wrong

_R_32F, _R_16F, _R_16BF, _R_8I, _R_32I = 0, 2, 14, 3, 10  # cudaDataType
_COMPUTE_32F, _COMPUTE_32I = 68, 72  # cublasComputeType_t
_TYPES = {"float32": _R_32F, "float16": _R_16F, "bfloat16": _R_16BF, "int8": _R_8I, "int32": _R_32I}
_ROUNDS = 9
_SAMPLE_NS = 20_000_000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="workloads whose names have this in them")
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--builders", type=int, default=8)
    parser.add_argument("--small", action="store_true", help="sizes of at most 64")
    parser.add_argument("--json", action="store_true", help="one JSON line a workload")
    args = parser.parse_args()
    from compiler.runtime.core.device import cuda

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
    """Return the speeds of all, in GFLOP/s of products and GB/s of the others, and `part` of the best of the others."""
    from compiler.runtime.core.ndarray import array, empty

    func = function(case)
    inputs, output = data(case), func.buffer_map[func.params[-1]]
    kernel, problem = tuned(func, trials, builders)
    on_device = [
        array(x, place) if case.dtype != "bfloat16" else empty(x.shape, case.dtype, place).copyfrom(x) for x in inputs
    ]
    result = empty(tuple(int(extent) for extent in output.shape), output.dtype, place)
    runs: dict[str, Run] = {}
    if kernel is not None:
        runs["tunefarm"] = kernel.prepare((*on_device, result))
        runs["tunefarm"]()
        problem = wrong(case, inputs, result.numpy())
    if case.name in PRODUCTS and (vendor := cublas()) is not None:
        runs["cublas"] = vendor.product(case, [x.handle.address for x in on_device], place)
    if (other := with_torch(case, inputs)) is not None:
        runs["torch"] = other
    moved = sum(x.handle.nbytes for x in on_device) + result.handle.nbytes
    if not case.computes:
        half = empty((moved // 2,), "uint8", place), empty((moved // 2,), "uint8", place)
        runs["copy"] = lambda: place.api.copy_within(place, half[0].handle, half[1].handle, moved // 2)
    work = case.flops if case.computes else float(moved)
    reached = {name: work / ns for name, ns in timed(runs, place).items()}
    beside = max((v for name, v in reached.items() if name in ("cublas", "copy")), default=0.0)
    beside = beside or reached.get("torch", 0.0)
    name = f"{case.name} {'×'.join(map(str, case.sizes))} {case.dtype}"
    unit = "GFLOP/s" if case.computes else "GB/s"
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


def tuned(func: Any, trials: int, builders: int) -> tuple[Any, str]:
    """The best kernel of a run on a private server, loaded, or None and why."""
    from compiler.artifact import Artifact
    from compiler.driver.build import compile_artifact
    from compiler.runtime.load import load_artifact
    from compiler.schedule.core.schedule import apply_trace
    from compiler.schedule.core.trace import Trace
    from compiler.target.target import Target
    from tuner.build.process_builder import ProcessBuilder
    from tuner.devices.supplies import LocalFleet
    from tuner.engine.engine import EngineRun
    from tuner.engine.options import RunOptions
    from tuner.engine.plan import sketch_search
    from tuner.engine.progress import NoWatcher
    from tuner.engine.run_recorder import RunRecorder
    from tuner.records.store import RecordStore
    from tuner.task import TuningTask

    fleet = LocalFleet(gpu="0")
    builder = ProcessBuilder(builders)
    try:
        with (
            tempfile.TemporaryDirectory() as folder,
            RecordStore.open(f"sqlite:///{folder}/r.db", create=True) as store,
        ):
            options = RunOptions(trials=trials, target=fleet.target(), run_timeout_s=30.0, builders=builders)
            task = TuningTask("gpu", func, Target(options.target))
            recorder = RunRecorder.create(store, [task], options, command="benchmarks/gpu.py")
            found = EngineRun([sketch_search(task)], fleet, builder, recorder, options, NoWatcher()).run()
            best = store.best.look_up(task.key, str(task.target), None)
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
    """cublasGemmStridedBatchedEx on memory of ours, in our context."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        self._handle = ctypes.c_void_p()
        check(library.cublasCreate_v2(ctypes.byref(self._handle)), "cublasCreate")

    def product(self, case: Case, addresses: list[int], place: Any) -> Run:
        """C = A B, of rows, or a batch of them: as cuBLAS sees it, Cᵗ = Bᵗ Aᵗ, of columns."""
        from compiler.runtime.core.ndarray import empty

        m, n, k = case.sizes[-3:]
        batch = case.sizes[0] if case.name == "batch_matmul" else 1
        whole = case.dtype == "int8"
        transposed = whole or case.name == "dense_relu"
        out = empty((batch * m, n), "int32" if whole else case.dtype, place)
        number = ctypes.c_int32 if whole else ctypes.c_float
        one, zero = number(1), number(0)
        kind, compute = _TYPES[case.dtype], _COMPUTE_32I if whole else _COMPUTE_32F
        a, b = (ctypes.c_void_p(address) for address in addresses[:2])
        apart = [ctypes.c_longlong(size) for size in (n * k, m * k, m * n)]

        def run() -> None:
            check(
                self._library.cublasGemmStridedBatchedEx(
                    self._handle, int(transposed), 0, n, m, k, ctypes.byref(one), b, kind, k if transposed else n,
                    apart[0], a, kind, k, apart[1], ctypes.byref(zero), ctypes.c_void_p(out.handle.address),
                    _TYPES[out.dtype], n, apart[2], batch, compute, -1,
                ),
                "cublasGemmStridedBatchedEx",
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


if __name__ == "__main__":
    sys.exit(main())
