"""Tuning speed and result: trials per second and the best matmul, beside Apache TVM's MetaSchedule and OpenBLAS.

    python benchmarks/tuning.py --size 512 --trials 64
    python benchmarks/tuning.py --size 512 --trials 64 --peer /path/to/peer/bin/python

Both tuners run whole, one after the other, on the same cores. Ours runs twice: as `tunefarm tune` measures by default,
with as many samples as it takes to tell candidates apart, and with the settings of the peer's evaluator (once, for 100
ms at least, in the finals as well, which the peer has not). The best kernels of both tuners are timed in turns at the
end, each in a process of its own that rests meanwhile; numpy's matmul takes turns with ours in one process, with the
same number of threads. How to make the peer's environment is said in benchmarks/peers/metaschedule.py.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
REST_S = 0.2  # threads of the one before spin for a while after a call


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=512, help="square matmul, float32")
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--seeds", type=int, default=1, help="how often ours is repeated, with other seeds")
    parser.add_argument("--peer", help="Python with apache-tvm installed")
    parser.add_argument("--rounds", type=int, default=15, help="turns of the best kernels")
    parser.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)))
    args = parser.parse_args()
    os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[: args.cores]))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        rows = [tune_ours(args.size, args.trials, seed, folder, {}) for seed in range(args.seeds)]
        if args.peer:
            rows.append(tune_ours(args.size, args.trials, 0, folder, AS_PEER))
            peer = stack.enter_context(Peer(args.peer, args.size, args.trials, args.cores))
            rows.append(peer.row)
            best = max(rows[:-1], key=lambda row: row["gflops"])
            turns = in_turns(best["artifact"], peer, args.rounds)
    print(f"float32 matmul {args.size}^3, {args.trials} trials, {args.cores} cores")
    print(f"{'tuner':40}{'seconds':>9}{'trials/s':>10}{'overhead':>10}{'best GFLOP/s':>14}{'of OpenBLAS':>13}")
    for row in rows:
        shown = [f"{row[k]:{form}}" if k in row else "-" for k, form in COLUMNS.items()]
        print(f"{row['tuner']:40}{shown[0]:>9}{shown[1]:>10}{shown[2]:>10}{shown[3]:>14}{shown[4]:>13}")
    if args.peer:
        for row in rows[:-1]:
            print(f"trials per second, {row['tuner']} / peer: {row['rate'] / rows[-1]['rate']:.1f}")
        ours, theirs = (2 * args.size**3 / seconds / 1e9 for seconds in turns)
        print(f"best kernels in turns: {ours:.1f} and {theirs:.1f} GFLOP/s, ours / peer: {ours / theirs:.2f}")


COLUMNS = {"seconds": ".1f", "rate": ".2f", "overhead": ".1%", "gflops": ".1f", "ratio": ".2f"}
AS_PEER = {
    "samples": 1,
    "max_samples": 1,
    "sample_ms": 100,
    "reject": False,
    "final_samples": 1,
    "final_sample_ms": 100,
    "finalists": 3,
    "final_rounds": 2,
}


def tune_ours(size: int, trials: int, seed: int, folder: Path, run: dict[str, Any]) -> dict[str, Any]:
    """`tunefarm tune` on a private server with the `run` options given, then the best kernel against numpy."""
    workload = f"matmul:{size},{size},{size}:float32"
    name = f"{'peer-settings' if run else 'adaptive'}-{seed}"
    spec, db = folder / f"{name}.toml", f"sqlite:///{folder}/{name}.db"
    lines = [f"{key} = {json.dumps(value)}" for key, value in run.items()]
    spec.write_text("\n".join([f'workloads = ["{workload}"]', "[run]", *lines]))
    command = [sys.executable, "-m", "tunefarm", "tune", str(spec), "--trials", str(trials), "--db", db]
    command += ["--seed", str(seed), "--json", "--quiet"]
    report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    artifact = build_best(db, workload, folder / f"{name}.tfa")
    versus = against_numpy(artifact)
    return {
        "tuner": f"tunefarm, {'as the peer measures' if run else 'adaptive'}, seed {seed}",
        "seconds": report["seconds"],
        "rate": report["tasks"][0]["trials"] / report["seconds"],
        "overhead": report["overhead"],
        "gflops": versus["gflops"],
        "ratio": versus["ratio"],
        "artifact": artifact,
    }


def build_best(db: str, workload: str, path: Path) -> Path:
    """Build the store's best config into a file."""
    from compiler.driver.build import compile_artifact
    from compiler.schedule.core.schedule import apply_trace
    from compiler.schedule.core.trace import Trace
    from tuner.records.store import RecordStore
    from tuner.task import TuningTask

    with RecordStore.open(db) as store:
        [best] = store.best.page(limit=1)
    task = TuningTask.from_spec(workload, best.target)
    artifact = compile_artifact(apply_trace(task.func, Trace.from_json(best.trace)).func, task.target, name="main")
    path.write_bytes(artifact.to_bytes())
    return path


def against_numpy(path: Path) -> dict[str, float]:
    """The kernel's speed beside numpy's, threads alike."""
    env = {**os.environ, "OPENBLAS_NUM_THREADS": str(len(os.sched_getaffinity(0)))}
    done = subprocess.run(
        [sys.executable, "-m", "tunefarm.cli.tuning.versus", str(path)],
        check=True,
        capture_output=True,
        text=True,
        env=env,
    )
    result: dict[str, float] = json.loads(done.stdout)
    return result


class Peer:
    """The peer's tuner; when it is done, its best kernel waits to be timed."""

    def __init__(self, python: str, size: int, trials: int, cores: int) -> None:
        from compiler.target.target import Target

        command = [python, str(HERE / "peers" / "metaschedule.py"), "--size", str(size), "--trials", str(trials)]
        command += ["--cores", str(cores), "--cpu", Target.host().mcpu]
        self._timed = Timed(command)
        said = self._timed.line()
        while not said.startswith("{"):  # the peer logs on its standard output too
            said = self._timed.line()
        found = json.loads(said)
        rate = found["trials"] / found["seconds"]
        self.row = {"tuner": f"apache-tvm {found['peer']} MetaSchedule", "seconds": found["seconds"], "rate": rate}

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self._timed.close()

    def seconds(self) -> float:
        return self._timed.seconds()


class Timed:
    """A process that times its kernel when it is asked."""

    def __init__(self, command: list[str]) -> None:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen(command, text=True, **pipes)  # type: ignore[call-overload]

    def line(self) -> str:
        said: str = self._process.stdout.readline()
        if not said:
            status = self._process.wait()
            raise SystemExit(f"{self._process.args[:2]} ended with status {status}: it has no kernel that runs")
        return said

    def seconds(self) -> float:
        with suppress(BrokenPipeError):  # it has ended, which its missing answer tells
            self._process.stdin.write("\n")
            self._process.stdin.flush()
        return float(self.line())

    def close(self) -> None:
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()


def in_turns(artifact: Path, peer: Peer, rounds: int) -> tuple[float, float]:
    """Median seconds a call of our best kernel and the peer's, a turn each until all rounds are over."""
    ours = Timed([sys.executable, str(HERE / "peers" / "ours.py"), str(artifact)])
    pairs = []
    for _ in range(rounds):
        time.sleep(REST_S)
        first = ours.seconds()
        time.sleep(REST_S)
        pairs.append((first, peer.seconds()))
    ours.close()
    return statistics.median(p[0] for p in pairs), statistics.median(p[1] for p in pairs)


if __name__ == "__main__":
    main()
