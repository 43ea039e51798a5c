"""Expressions and statements of scripts, evaluated."""

import numpy as np
import tvm
from tvm.script import tir as T


@T.prim_func
def numbers(A: T.Buffer((10,), "float32"), n: T.int32):
    A[0] = T.Cast("float32", n // 3)
    A[1] = T.Cast("float32", n % 3)
    A[2] = T.if_then_else(n > 4, T.float32(1), T.float32(2))
    A[3] = T.max(T.Cast("float32", n), T.float32(6.5))
    A[4] = T.Select(n == 7, T.float32(70), T.float32(80))
    A[5] = T.sqrt(T.float32(16))
    A[6] = T.Cast("float32", T.shift_left(1, n))
    A[7] = T.Cast("float32", T.bitwise_and(n, 3))
    A[8] = T.if_then_else(n > 0 and n < 10, T.float32(8), T.float32(9))
    A[9] = T.exp(T.float32(0)) + T.pow(T.float32(2), T.float32(3))


@T.prim_func
def lets(A: T.Buffer((4,), "int32")):
    for i in range(4):
        double: T.int32 = i * 2
        A[i] = double + double // 2


@T.prim_func
def checked(A: T.Buffer((4,), "int32"), n: T.int32):
    assert n < 10, "too large"
    for i in range(4):
        A[i] = n


@T.prim_func
def temporary(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    data = T.allocate([4], "float32", "global")
    C = T.Buffer((4,), "float32", data=data)
    for i in range(4):
        C[i] = A[3 - i]
    for i in range(4):
        B[i] = C[i] * C[0]


@T.prim_func
def dynamic(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    for i in range(n):
        B[i] = A[i] + T.float32(1)


a = tvm.nd.empty((10,))
tvm.build(numbers, target="llvm")(a, 7)
print(a.numpy().tolist())
b = tvm.nd.empty((4,), "int32")
tvm.build(lets, target="llvm")(b)
print(b.numpy().tolist())
f = tvm.build(checked, target="llvm")
f(b, 3)
print(b.numpy().tolist())
try:
    f(b, 30)
    print("no error")
except Exception as error:
    print("refused", isinstance(error, tvm.TVMError))
c = tvm.nd.empty((4,))
tvm.build(temporary, target="llvm")(tvm.nd.array(np.array([1, 2, 3, 4], "float32")), c)
print(c.numpy().tolist())
g = tvm.build(dynamic, target="llvm")
for size in (1, 5):
    d = tvm.nd.empty((size,))
    g(tvm.nd.array(np.zeros(size, "float32")), d)
    print(d.numpy().tolist())
