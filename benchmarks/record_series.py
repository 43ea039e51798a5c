"""Record series of benchmark results on this machine: what `changes.py` takes its rates on recorded series from.

    python benchmarks/record_series.py
    python benchmarks/record_series.py --results 300 --pause 5 --out series.json.gz

Each result is what one pass of `tunefarm bench run` measures of a kernel; the machine is left as it is, with whatever
else it does.
"""

from __future__ import annotations

import argparse
import gzip
import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

from tuner.bench.devices import BenchDevice
from tuner.bench.kernels import KernelBuilds
from tuner.bench.run import BenchMeasured, BenchOptions, Ended, run_bench
from tuner.bench.suites import Suite
from tuner.devices.fleet import DeviceSession
from tuner.devices.supplies import LocalFleet
from tuner.records.farm.model_farm import NewBenchRun
from tuner.records.store import RecordStore
from tuner.toolchain import toolchain
from tuner.workloads import WorkloadSpec

FILE = Path(__file__).parent / "data" / "series.json.gz"
KERNELS = (
    "matmul:64,64,64", "matmul:128,128,128", "conv2d:1,8,14,14,8,3,3", "softmax:64,512", "layer_norm:64,512",
    "row_sum:256,1024", "copy:65536", "triad:1048576",
)  # fmt: skip
SUITE = Suite("series", tuple(map(WorkloadSpec.parse, KERNELS)), config="untuned")


def lent(session: DeviceSession) -> Callable[[float], AbstractContextManager[DeviceSession]]:
    """The session for every pass, so that a pass does not wait for a server."""

    @contextmanager
    def hold(_wait_s: float) -> Iterator[DeviceSession]:
        yield session

    return hold


def record(count: int, pause_s: float) -> dict[str, list[float]]:
    """`count` results of each kernel in seconds, in the order of time."""
    series: dict[str, list[float]] = defaultdict(list)
    options = BenchOptions(rounds=1)
    with (
        tempfile.TemporaryDirectory() as folder,
        RecordStore.open(Path(folder) / "series.db", create=True) as store,
        closing(LocalFleet()) as fleet,
        closing(fleet.open(0, 60.0)) as session,
    ):
        builds, device = KernelBuilds(SUITE, store), BenchDevice("this machine", lent(session))
        new = NewBenchRun(suite=SUITE.name, spec=SUITE.to_json(), devices="this machine", toolchain=toolchain())
        for _ in range(count):
            run = store.benches.start(new)
            for event in run_bench(store, builds, [device], options, run.id):
                match event:
                    case BenchMeasured(_, kernel, 1, float(cost)):  # not what was measured again
                        series[kernel].append(cost)
                    case Ended(problem=problem) if problem:
                        raise SystemExit(problem)
            time.sleep(pause_s)
    return dict(series)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=int, default=120, help="of each kernel")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds between two passes")
    parser.add_argument("--out", type=Path, default=FILE)
    args = parser.parse_args()
    rounded = {k: [float(f"{cost:.5g}") for cost in costs] for k, costs in record(args.results, args.pause).items()}
    with gzip.GzipFile(args.out, "wb", mtime=0) as file:
        file.write(json.dumps(rounded).encode())
    print(f"{len(rounded)} series of {args.results} results in {args.out}")


if __name__ == "__main__":
    main()
