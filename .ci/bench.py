"""Run the benchmarks: `python .ci/bench.py [--peer PYTHON] [--quick] [NAME ...]`.

Whole, one after the other, as numbers are taken. With `--quick` each in its shortest form, to see that it runs: two at
a time, their output shown of those that fail. A new benchmark needs a line in QUICK.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"

QUICK = {
    "call": "--rounds 1",
    "changes": "--series 20",
    "compile": "--rounds 1 --candidates 1 --only matmul",
    "convergence": "--workload matmul:64,64,64 --long 8 --trials 4 --seeds 1 --rounds 1",
    "families": "--only small --trials 4 --rounds 1",
    "decoder": "--quick",
    "farm": "--boxes 20 --clients 5 --seconds 0.3",
    "gpu": "--small --trials 2",
    "graphs": "--rounds 1 --only resnet",
    "intrinsics": "exp tanh --seconds 0.01",
    "kernels": "--only 1.c --trials 4 --rounds 1",
    "levels": "--rounds 1",
    "models": "--quick --models small_llama --profile {folder}/profile.md",
    "operators": "--only softmax --trials 4 --rounds 1",
    "record_series": "--results 2 --out {folder}/series.json.gz",
    "record_spaces": "--only matmul:64,64,64 --points 4 --drawn-points 4 --data {folder}/spaces",
    "relay": "--boxes 20",
    "roofline": "--mib 1 --rounds 1 --threads 1",
    "rpc": "--rounds 1",
    "scaling": "--devices 1 2 --trial-ms 50 --trials 4",
    "search": "--workload matmul:64,64,64 --trials 16",
    "shares": "--devices 3 --minutes 0.4 --trial-ms 300 --within 0.3",
    "shipped_model": "--folder {folder}/shipped --trees 2 --family llvm-x86_64-256",
    "store": "--trials 2000 --models 3 --repeat 1 --seconds 0.2",
    "strategies": "--only random --trials 4 --seeds 1 --family llvm-x86_64-256",
    "threads": "--rounds 1",
    "time_evaluator": "--processes 1",
    "vm": "--rounds 1 --megabytes 1",
    "winograd_errors": "--seeds 1",
    "tuning": "--size 64 --trials 4 --rounds 1",
}
"""Arguments of each benchmark in its shortest form. Files go to `{folder}`, a temporary folder."""

RECORDERS = {"record_series", "record_spaces", "shipped_model"}
"""They write what is kept in the tree, so they are run on purpose only."""

_TWO_AT_A_TIME = 2
_LIMIT_S = 300.0


def scripts() -> dict[str, Path]:
    """Files of benchmarks/ that are run; others are modules of theirs."""
    return {path.stem: path for path in sorted(BENCHMARKS.glob("*.py")) if "__main__" in path.read_text()}


def whole(names: list[str], peer: str | None) -> int:
    for name in names:
        path = scripts()[name]
        words = ["--peer", peer] if peer and re.search(r'"--peer"', path.read_text()) else []
        print(f"\n== {name} {shlex.join(words)}", flush=True)
        if status := subprocess.run([sys.executable, path, *words]).returncode:
            return status
    return 0


def quick(names: list[str]) -> int:
    missing = [name for name in names if name not in QUICK]
    if missing:
        print(f"no shortest form in .ci/bench.py: {', '.join(missing)}", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(_TWO_AT_A_TIME) as pool:
        failed = [name for name, ok in zip(names, pool.map(lambda name: _quick(name, folder), names)) if not ok]
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return bool(failed)


def _quick(name: str, folder: str) -> bool:
    words = shlex.split(QUICK[name].format(folder=folder))
    start = time.monotonic()
    command = [sys.executable, scripts()[name], *words]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as process:
        try:
            said, _ = process.communicate(timeout=_LIMIT_S)
            status = str(process.returncode)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # and what it has started
            said, _ = process.communicate()
            status = f"killed after {_LIMIT_S:g} s"
    ok = status == "0" and bool(said.strip())
    told = "" if ok else f"  exit status {status}\n{said}"
    print(f"{name:16} {time.monotonic() - start:6.1f} s{told}", flush=True)
    return ok


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="benchmarks (default: all)")
    parser.add_argument("--peer", help="Python with apache-tvm installed, whose numbers stand beside ours")
    parser.add_argument("--quick", action="store_true", help="the shortest form of each")
    args = parser.parse_args()
    if unknown := set(args.names) - set(scripts()):
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")
    if args.quick:
        return quick(args.names or list(scripts()))
    return whole(args.names or [name for name in scripts() if name not in RECORDERS], args.peer)


if __name__ == "__main__":
    sys.exit(main())
