"""Which built-in error a failing call also is."""

import numpy as np
import tvm
from tvm import te, tir


def kind(call, *wanted):
    try:
        call()
        return "no error"
    except wanted:
        return "as expected"
    except Exception as error:
        return f"other: {type(error).__name__}"


A = te.placeholder((4,), name="A")
B = te.compute((4,), lambda i: A[i] + 1.0, name="B")
s = te.create_schedule(B.op)
f = tvm.build(s, [A, B], "llvm", name="f")
a, b = tvm.nd.empty((4,)), tvm.nd.empty((4,))
print(kind(lambda: f["missing"], AttributeError))
print(kind(lambda: f.get_function("missing"), AttributeError))
print(kind(lambda: f(a), tvm.TVMError, TypeError, ValueError))
print(kind(lambda: f(a, tvm.nd.empty((5,))), tvm.TVMError, ValueError))
print(kind(lambda: f(a, tvm.nd.empty((4,), "int32")), tvm.TVMError, ValueError, TypeError))
print(kind(lambda: tvm.get_global_func("nothing.here"), ValueError))
print(kind(lambda: te.compute((4,), lambda i: A[i, 0]), ValueError, IndexError, tvm.TVMError))
print(kind(lambda: tir.Schedule(te.create_prim_func([A, B])).get_block("zzz"), tir.ScheduleError))
print(kind(lambda: tir.Schedule(te.create_prim_func([A, B])).get_block("zzz"), tvm.TVMError))
print(kind(lambda: tvm.target.Target("unknown_kind"), ValueError, tvm.TVMError))
print(kind(lambda: tvm.nd.array(np.zeros(3)).copyto(3), ValueError, TypeError))
print(kind(lambda: bool(te.var("x") < 3), ValueError))
print(kind(lambda: tvm.ir.load_json("not json"), ValueError, RuntimeError, tvm.TVMError))
print(
    issubclass(tvm.TVMError, RuntimeError),
    issubclass(tir.ScheduleError, tvm.TVMError),
    issubclass(tvm.error.InternalError, tvm.TVMError),
)
print(issubclass(tvm.error.RPCError, tvm.TVMError), tvm.error.TVMError is tvm.TVMError)
