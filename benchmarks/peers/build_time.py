"""Build the same schedules with Apache TVM: reads {size, cpu, cores, programs} as JSON, prints a JSON line.

Each program is a trace as Python, in the names both compilers share. How to make the peer's environment is said in
benchmarks/peers/metaschedule.py.
"""

import json
import sys
import time

import tvm
from tvm import te
from tvm.s_tir import Schedule


def for_this_peer(program: str) -> str:
    """The same schedule in the peer's words: another name for blocks, and the reduction split off last, as the peer
    marks loops only before that (it then copies the marks to the initialisation itself)."""
    lines = program.replace("get_block(", "get_sblock(").splitlines()
    split = next(line for line in lines if "decompose_reduction" in line)
    block = split.split(" = ")[0]
    loops = next(line for line in lines if f"get_loops({block})" in line)
    names = loops.split("]")[0].strip("[").split(", ")
    marks = [line for line in lines if any(line.endswith(f"({name})") for name in names)]
    return "\n".join([*(line for line in lines if line not in (split, loops, *marks)), split])


def main() -> None:
    job = json.load(sys.stdin)
    n = job["size"]
    a = te.placeholder((n, n), name="A", dtype="float32")
    b = te.placeholder((n, n), name="B", dtype="float32")
    k = te.reduce_axis((0, n), name="k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="T_matmul")
    func = te.create_prim_func([a, b, c])
    target = tvm.target.Target({"kind": "llvm", "mcpu": job["cpu"], "num-cores": job["cores"]})
    results = []
    for program in [job["programs"][0], *job["programs"]]:  # the first one twice: its first build warms up
        start = time.perf_counter()
        sch = Schedule(func)
        exec(for_this_peer(program), {"sch": sch})
        scheduled = time.perf_counter()
        tvm.compile(sch.mod, target=target)
        results.append([scheduled - start, time.perf_counter() - scheduled])
    print(json.dumps({"peer": tvm.__version__, "seconds": results[1:]}))


if __name__ == "__main__":
    main()
