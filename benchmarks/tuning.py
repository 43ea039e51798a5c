"""Tuning speed and result: trials per second and the best matmul, beside Apache TVM's MetaSchedule and OpenBLAS.

    python benchmarks/tuning.py --size 512 --trials 64
    python benchmarks/tuning.py --size 512 --trials 64 --peer /path/to/peer/bin/python

Both tuners run whole, one after the other, on the same cores; the best kernel of ours and numpy's matmul are timed in
one process, in turns, with the same number of threads. How to make the peer's environment is said in
benchmarks/peers/metaschedule.py.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=512, help="square matmul, float32")
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--seeds", type=int, default=1, help="how often ours is repeated, with other seeds")
    parser.add_argument("--peer", help="Python with apache-tvm installed")
    parser.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)))
    args = parser.parse_args()
    os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[: args.cores]))
    rows = [tune_ours(args.size, args.trials, seed) for seed in range(args.seeds)]
    if args.peer:
        rows.append(tune_peer(args.peer, args.size, args.trials, args.cores))
    print(f"float32 matmul {args.size}^3, {args.trials} trials, {args.cores} cores")
    print(f"{'tuner':32}{'seconds':>9}{'trials/s':>10}{'best GFLOP/s':>14}{'of OpenBLAS':>13}")
    for row in rows:
        ratio = f"{row['ratio']:.2f}" if "ratio" in row else "-"
        print(f"{row['tuner']:32}{row['seconds']:9.1f}{row['rate']:10.2f}{row['gflops']:14.1f}{ratio:>13}")
    if args.peer:
        ours = sorted(r["rate"] for r in rows[:-1])[(len(rows) - 1) // 2]
        print(f"trials per second, ours / peer: {ours / rows[-1]['rate']:.1f}")


def tune_ours(size: int, trials: int, seed: int) -> dict[str, Any]:
    """`tunefarm tune` on a private server, then the best kernel against numpy."""
    workload = f"matmul:{size},{size},{size}:float32"
    with tempfile.TemporaryDirectory() as folder:
        db = f"sqlite:///{folder}/tunefarm.db"
        command = [sys.executable, "-m", "tunefarm", "tune", workload, "--trials", str(trials), "--db", db]
        command += ["--seed", str(seed), "--json", "--quiet"]
        report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        versus = best_against_numpy(db, workload, Path(folder))
    task = report["tasks"][0]
    return {
        "tuner": f"tunefarm, seed {seed}",
        "seconds": report["seconds"],
        "rate": task["trials"] / report["seconds"],
        "gflops": versus["gflops"],
        "ratio": versus["ratio"],
    }


def best_against_numpy(db: str, workload: str, folder: Path) -> dict[str, float]:
    """Build the store's best config and time it beside numpy, threads alike."""
    from compiler.driver import compile_artifact
    from compiler.schedule.trace import Trace, apply_trace
    from tuner.records.store import RecordStore
    from tuner.task import TuningTask

    with RecordStore.open(db) as store:
        [best] = store.best_configs(limit=1)
    task = TuningTask.from_spec(workload, best.target)
    artifact = compile_artifact(apply_trace(task.func, Trace.from_json(best.trace)).func, task.target, name="main")
    path = folder / "best.tfa"
    path.write_bytes(artifact.to_bytes())
    env = {**os.environ, "OPENBLAS_NUM_THREADS": str(len(os.sched_getaffinity(0)))}
    done = subprocess.run(
        [sys.executable, "-m", "tunefarm.cli.versus", str(path)], check=True, capture_output=True, text=True, env=env
    )
    result: dict[str, float] = json.loads(done.stdout)
    return result


def tune_peer(python: str, size: int, trials: int, cores: int) -> dict[str, Any]:
    from compiler.target import Target

    command = [python, str(HERE / "peers" / "metaschedule.py"), "--size", str(size), "--trials", str(trials)]
    command += ["--cores", str(cores), "--cpu", Target.host().mcpu]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    peer = json.loads(out.strip().splitlines()[-1])
    return {
        "tuner": f"apache-tvm {peer['peer']} MetaSchedule",
        "seconds": peer["seconds"],
        "rate": peer["trials"] / peer["seconds"],
        "gflops": peer["best_gflops"],
    }


if __name__ == "__main__":
    main()
