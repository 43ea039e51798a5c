"""Packed functions that get numbers and texts from a function built by the IR builder."""

import numpy as np
import tvm
from tvm import te, tir

seen = []


@tvm.register_func("demo.note")
def note(number, text, value):
    seen.append((int(number), str(text), float(value)))
    return 0


n = 4
A = tir.decl_buffer((n,), "float32", name="A")
ib = tir.ir_builder.create()
a = ib.buffer_ptr(A)
with ib.for_range(0, n, name="i") as i:
    with ib.if_scope(i % 2 == 1):
        ib.emit(tir.call_packed("demo.note", i, "odd", a[i]))
    with ib.else_scope():
        a[i] = a[i] + 1.0
func = tir.PrimFunc([A.data], ib.get(), None, {})
func = tir.PrimFunc([tir.Var("A", "handle")], func.body)
print(type(func.body).__name__)

B = te.placeholder((n,), name="B")


def gen(ins, outs):
    ib = tir.ir_builder.create()
    x, y = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
    with ib.for_range(0, n, name="i") as i:
        y[i] = x[i] * 3.0
        ib.emit(tir.call_packed("demo.note", i, "seen", x[i]))
    return ib.get()


C = te.extern((n,), [B], gen, name="C", dtype="float32")
f = tvm.build(te.create_schedule(C.op), [B, C], "llvm")
out = tvm.nd.empty((n,))
f(tvm.nd.array(np.arange(n, dtype="float32")), out)
print(out.numpy().tolist())
print(seen)
