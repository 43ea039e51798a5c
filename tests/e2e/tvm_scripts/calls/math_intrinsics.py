"""Elementwise functions against numpy, and how their calls look."""

import numpy as np
import tvm
import tvm.testing
from tvm import te

x = np.array([0.1, 0.5, 0.9, 0.3], dtype="float32")
A = te.placeholder((4,), name="A")
FUNCTIONS = {
    "exp": np.exp, "log": np.log, "sqrt": np.sqrt, "tanh": np.tanh, "floor": np.floor, "ceil": np.ceil,
    "trunc": np.trunc, "nearbyint": np.round, "sin": np.sin, "cos": np.cos, "atan": np.arctan, "asin": np.arcsin,
    "log2": np.log2, "log10": np.log10, "log1p": np.log1p, "exp2": np.exp2, "exp10": lambda v: 10**v, "cosh": np.cosh, "sinh": np.sinh,
    "sigmoid": lambda v: 1 / (1 + np.exp(-v)), "rsqrt": lambda v: 1 / np.sqrt(v), "abs": np.abs,
}  # fmt: skip
for name, of in FUNCTIONS.items():
    B = te.compute((4,), lambda i: getattr(tvm.tir, name)(A[i]), name="B")
    s = te.create_schedule(B.op)
    f = tvm.build(s, [A, B], "llvm")
    b = tvm.nd.empty((4,))
    f(tvm.nd.array(x), b)
    tvm.testing.assert_allclose(b.numpy(), of(x), rtol=1e-5, atol=1e-6)
    print(name, B.op.body[0].dtype)

i = te.var("i")
call = te.exp(tvm.tir.const(1.5, "float32"))
print(type(call).__name__, call.op.name, call.dtype, call.args[0].value)
print(
    te.floordiv(te.const(7), 2), te.floormod(te.const(-7), 2), te.truncdiv(te.const(-7, "int32"), 2), te.indexmod(7, 4)
)
print(te.max_value("int8"), te.min_value("int8"), te.max_value("uint8"), te.min_value("float16").value)
print(te.power(te.const(2.0, "float32"), te.const(3.0, "float32")).dtype, te.isnan(te.const(1.0, "float32")).dtype)
print(tvm.tir.all(i > 0, i < 4).dtype, type(tvm.tir.any(i > 0, i < 4)).__name__)
print(tvm.tir.if_then_else(i > 0, 1, 2).op.name, tvm.tir.Select(i > 0, 1, 2).dtype)
