"""Tune a float32 matmul with Apache TVM's MetaSchedule and print one JSON line. Runs in the peer's Python.

Then, for each line on standard input, time the best kernel once more and print the seconds a call, so that whoever asks
can have it take turns with another.

    python -m venv peer
    peer/bin/pip install apache-tvm==0.27.0.post1 apache-tvm-ffi==0.1.14.post1 xgboost cloudpickle psutil tornado
    peer/bin/python benchmarks/peers/metaschedule.py --size 512 --trials 64 --cores 2
"""

import argparse
import json
import sys
import tempfile
import time

import numpy as np
import tvm
from tvm import te
from tvm.s_tir import meta_schedule as ms

PATIENCE_S = 300.0  # its workers import TVM within the limit, which takes longer than 30 s on a busy machine


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--cpu", default="")
    args = parser.parse_args()
    n = args.size
    a = te.placeholder((n, n), name="A", dtype="float32")
    b = te.placeholder((n, n), name="B", dtype="float32")
    k = te.reduce_axis((0, n), name="k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    mod = tvm.IRModule({"main": te.create_prim_func([a, b, c])})
    target = {"kind": "llvm", "num-cores": args.cores}
    if args.cpu:
        target["mcpu"] = args.cpu
    target = tvm.target.Target(target)
    settings = ms.runner.EvaluatorConfig(number=3, repeat=1, min_repeat_ms=100, enable_cpu_cache_flush=False)
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        database = ms.tune_tir(
            mod,
            target,
            work_dir=folder,
            max_trials_global=args.trials,
            num_trials_per_iter=min(64, args.trials),
            builder=ms.builder.LocalBuilder(timeout_sec=PATIENCE_S),
            runner=ms.runner.LocalRunner(timeout_sec=PATIENCE_S, evaluator_config=settings),
            seed=1,
        )
        seconds = time.perf_counter() - start
        schedule = ms.tir_integration.compile_tir(database, mod, target)
    print(json.dumps({"peer": tvm.__version__, "trials": args.trials, "seconds": seconds}), flush=True)
    if schedule is None:
        return
    built = tvm.compile(schedule.mod, target=target)
    dev = tvm.cpu()
    data = [tvm.runtime.tensor(np.random.rand(n, n).astype("float32"), dev) for _ in range(3)]
    timed = built.mod if hasattr(built, "mod") else built
    evaluator = timed.time_evaluator("main", dev, number=5, repeat=3)
    for _ in sys.stdin:
        print(float(np.median(evaluator(*data).results)), flush=True)


if __name__ == "__main__":
    main()
