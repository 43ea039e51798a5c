"""Macros: statements written once and used in several places."""

import numpy as np
import tvm
from tvm.script import tir as T


@T.macro
def saxpy(y, x, factor, n):
    for i in T.serial(n):
        with T.block("saxpy"):
            vi = T.axis.spatial(n, i)
            y[vi] = y[vi] + x[vi] * factor


factor = T.float32(100)


@T.macro(hygienic=False)
def finish(buffer):
    for i in T.serial(size):
        buffer[i] = buffer[i] * last


size = 6
last = T.float32(2)


@T.prim_func
def main(X: T.Buffer((size,), "float32"), Y: T.Buffer((size,), "float32")):
    saxpy(Y, X, T.float32(3), size)
    saxpy(Y, X, T.float32(10), n=size)
    finish(Y)


f = tvm.build(main, target="llvm")
y = tvm.nd.array(np.ones(size, "float32"))
f(tvm.nd.array(np.arange(size, dtype="float32")), y)
print(y.numpy().tolist())
names = []
tvm.tir.stmt_functor.post_order_visit(
    main.body, lambda n: names.append(n.name_hint) if isinstance(n, tvm.tir.Block) else None
)
print(names)
