"""Build one kernel of kernels.py with Apache TVM again and again; prints a JSON line of seconds.

    PEER/bin/python benchmarks/peers/compile.py "softmax 1024x1000" ROUNDS CPU CORES

A build is `tvm.compile` and the first look-up of the function, which is what makes its machine code. How to make the
peer's environment is said in benchmarks/peers/metaschedule.py.
"""

import json
import sys
import time
from types import SimpleNamespace

import tvm
from kernels import KERNELS
from tvm import te, tirx
from tvm.s_tir import Schedule

PEER = SimpleNamespace(
    te=te,
    Schedule=Schedule,
    block=lambda schedule, name: schedule.get_sblock(name),
    exp=tirx.exp,
    maximum=tirx.max,
    size=lambda name: tirx.Var(name, "int32"),
)


def main() -> None:
    name, rounds, cpu, cores = sys.argv[1:]
    target = tvm.target.Target({"kind": "llvm", "mcpu": cpu, "num-cores": int(cores)})
    mod = KERNELS[name](PEER).mod
    seconds: list[float] = []
    for _ in range(int(rounds) + 1):  # the first one warms up
        start = time.perf_counter()
        tvm.compile(mod, target=target)["main"]
        seconds.append(time.perf_counter() - start)
        print(json.dumps({"peer": tvm.__version__, "seconds": seconds[1:] or seconds}), flush=True)
        if sum(seconds) > 20:
            break


if __name__ == "__main__":
    main()
