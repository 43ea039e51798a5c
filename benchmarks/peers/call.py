"""The cost of a small kernel's call with Apache TVM; prints microseconds with and without the look-up.

How to make the peer's environment is said in benchmarks/peers/metaschedule.py.
"""

import sys
import timeit

import numpy as np
import tvm
from tvm import te


def main() -> None:
    number, repeat = (int(x) for x in sys.argv[1:3])
    a, b = te.placeholder((16,), name="A"), te.placeholder((16,), name="B")
    c = te.compute((16,), lambda i: a[i] + b[i], name="C")
    built = tvm.compile(te.create_prim_func([a, b, c]), target="llvm")
    x, y, z = (tvm.runtime.tensor(np.ones(16, "float32")) for _ in range(3))
    module = built.mod if hasattr(built, "mod") else built
    function = module["main"]
    runs = (lambda: module["main"](x, y, z)), (lambda: function(x, y, z))
    print(*(min(timeit.repeat(run, number=number, repeat=repeat)) / number * 1e6 for run in runs))


if __name__ == "__main__":
    main()
