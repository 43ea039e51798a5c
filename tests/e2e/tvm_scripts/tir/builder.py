"""Functions built with `ir_builder`: loops, conditions, memory, let, while."""

import numpy as np
import tvm
from tvm import te, tir

ib = tir.ir_builder.create()
n = te.size_var("n")
A = tir.decl_buffer((n,), "float32", name="A")
B = tir.decl_buffer((n,), "float32", name="B")
pa, pb = ib.buffer_ptr(A), ib.buffer_ptr(B)
with ib.for_range(0, n, name="i") as i:
    with ib.if_scope(i % 2 == 0):
        pb[i] = pa[i] + 1.0
    with ib.else_scope():
        pb[i] = pa[i] * 10.0
body = ib.get()
print(type(body).__name__, type(body.body).__name__, body.loop_var.name, int(body.kind))
func = tir.PrimFunc([A, B], body).with_attr("global_symbol", "oddeven")
f = tvm.build(tvm.IRModule.from_expr(func), target="llvm")
b = tvm.nd.empty((5,))
f(tvm.nd.array(np.arange(5, dtype="float32")), b)
print(b.numpy().tolist())

ib = tir.ir_builder.create()
X = tir.decl_buffer((8,), "int32", name="X")
px = ib.buffer_ptr(X)
tmp = ib.allocate("int32", 8, name="tmp", scope="local")
with ib.for_range(0, 8, name="i", kind="serial") as i:
    tmp[i] = i * i
with ib.for_range(0, 8, name="j") as j:
    y = ib.let("y", tmp[7 - j])
    px[j] = y + 1
body = ib.get()
func = tir.PrimFunc([X], body).with_attr("global_symbol", "squares")
f = tvm.build(tvm.IRModule({"squares": func}), target="llvm")
x = tvm.nd.array(np.zeros(8, "int32"))
f(x)
print(x.numpy().tolist())

ib = tir.ir_builder.create()
X = tir.decl_buffer((1,), "int32", name="X")
px = ib.buffer_ptr(X)
with ib.while_loop(px[0] < 100):
    px[0] = px[0] * 2
f = tvm.build(tvm.IRModule({"main": tir.PrimFunc([X], ib.get()).with_attr("global_symbol", "main")}), target="llvm")
x = tvm.nd.array(np.array([3], "int32"))
f(x)
print(int(x.numpy()[0]))
kinds = []
tir.stmt_functor.post_order_visit(body, lambda node: kinds.append(type(node).__name__))
print([k for k in kinds if k in ("For", "BufferStore", "LetStmt", "Allocate", "SeqStmt")])
