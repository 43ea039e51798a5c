"""Loops of all kinds, threads and annotations in functions."""

import numpy as np
import tvm
from tvm import tir
from tvm.script import tir as T


@T.prim_func
def kinds(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
    for i in T.parallel(4):
        for jo in T.unroll(2):
            for ji in T.vectorized(4):
                B[i, jo * 4 + ji] = A[i, jo * 4 + ji] + T.float32(1)


@T.prim_func
def annotated(A: T.Buffer((8,), "int32")):
    for i in T.serial(6, annotations={"pragma_note": "here"}):
        A[i + 2] = A[i + 1] + A[i]


@T.prim_func
def until(A: T.Buffer((1,), "int32"), B: T.Buffer((1,), "int32")):
    B[0] = 0
    while A[0] > 1:
        if A[0] % 2 == 0:
            A[0] = A[0] // 2
        else:
            A[0] = A[0] * 3 + 1
        B[0] = B[0] + 1


found = []
tir.stmt_functor.post_order_visit(kinds.body, lambda n: found.append(int(n.kind)) if isinstance(n, tir.For) else None)
print(found, int(tir.ForKind.PARALLEL), int(tir.ForKind.VECTORIZED))
loop = annotated.body
print(loop.min.value, loop.extent.value, {k: str(v) for k, v in loop.annotations.items()})
a = np.arange(32, dtype="float32").reshape(4, 8)
b = tvm.nd.empty((4, 8))
tvm.build(kinds, target="llvm")(tvm.nd.array(a), b)
print((b.numpy() == a + 1).all())
c = tvm.nd.array(np.array([1, 1, 0, 0, 0, 0, 0, 0], "int32"))
tvm.build(annotated, target="llvm")(c)
print(c.numpy().tolist())
steps = tvm.nd.empty((1,), "int32")
tvm.build(until, target="llvm")(tvm.nd.array(np.array([27], "int32")), steps)
print(steps.numpy().tolist())


@T.prim_func
def threads(A: T.Buffer((64,), "float32")):
    for bx in T.thread_binding(4, thread="blockIdx.x"):
        for tx in T.thread_binding(16, thread="threadIdx.x"):
            A[bx * 16 + tx] = T.float32(0)


print(threads.body.thread_binding.thread_tag, threads.body.body.thread_binding.thread_tag)
