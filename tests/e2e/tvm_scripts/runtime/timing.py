"""Timing functions: evaluators, their results, and what they refuse."""

import numpy as np
import tvm
from tvm import te

n = 64
A = te.placeholder((n,), name="A")
B = te.compute((n,), lambda i: A[i] + 1, name="B")
f = tvm.build(te.create_schedule(B.op), [A, B], "llvm", name="addone")
a, b = tvm.nd.array(np.zeros(n, "float32")), tvm.nd.empty((n,))
dev = tvm.cpu(0)
result = f.time_evaluator("addone", dev, number=3, repeat=4)(a, b)
print(type(result).__name__, len(result.results), result.mean > 0, result.min <= result.median <= result.max)
print((b.numpy() == 1).all(), result.std >= 0)
result = f.time_evaluator(f.entry_name, dev, number=1, repeat=2, min_repeat_ms=1)(a, b)
print(len(result.results))
calls = []


@tvm.register_func("demo.prepare")
def prepare(*args):
    calls.append(len(args))


f.time_evaluator("addone", dev, number=1, repeat=3, f_preproc="demo.prepare")(a, b)
print(calls)
try:
    f.time_evaluator("missing", dev)(a, b)
    print("no error")
except Exception as error:
    print("refused", isinstance(error, AttributeError) or isinstance(error, tvm.TVMError))
