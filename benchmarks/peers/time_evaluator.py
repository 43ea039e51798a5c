"""Time a single-thread matmul with Apache TVM's time_evaluator, once; prints the median in seconds.

With the argument "empty" instead of numbers: a kernel that copies one number; prints nanoseconds per call.

How to make the peer's environment is said in benchmarks/peers/metaschedule.py.
"""

import sys

import numpy as np
import tvm
from tvm import te


def empty_call_ns() -> float:
    a = te.placeholder((1,), name="A", dtype="float32")
    b = te.compute((1,), lambda i: a[i], name="B")
    built = tvm.compile(te.create_prim_func([a, b]), target="llvm")
    dev = tvm.cpu()
    arrays = [tvm.runtime.empty((1,), "float32", dev) for _ in range(2)]
    timed = built.mod if hasattr(built, "mod") else built
    return float(np.median(timed.time_evaluator("main", dev, number=100_000, repeat=9)(*arrays).results)) * 1e9


def main() -> None:
    if sys.argv[1] == "empty":
        print(empty_call_ns())
        return
    n, number, repeat = (int(x) for x in sys.argv[1:4])
    a = te.placeholder((n, n), name="A", dtype="float32")
    b = te.placeholder((n, n), name="B", dtype="float32")
    k = te.reduce_axis((0, n), name="k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    built = tvm.compile(te.create_prim_func([a, b, c]), target=tvm.target.Target({"kind": "llvm", "mcpu": sys.argv[4]}))
    dev = tvm.cpu()
    rng = np.random.default_rng(0)
    data = [tvm.runtime.tensor(rng.random((n, n), dtype="float32"), dev) for _ in range(3)]
    timed = built.mod if hasattr(built, "mod") else built
    print(np.median(timed.time_evaluator("main", dev, number=number, repeat=repeat)(*data).results))


if __name__ == "__main__":
    main()
