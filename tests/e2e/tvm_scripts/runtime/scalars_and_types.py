"""Data types, constants and what Python values become."""

import tvm
from tvm import tir

for text in ("int32", "float16", "uint8x4", "bool", "bfloat16", "float32x8"):
    dtype = tvm.DataType(text)
    print(text, dtype, dtype.bits, dtype.lanes, dtype == tvm.DataType(text))
for value in (3, 2.5, True):
    constant = tvm.runtime.const(value)
    print(type(constant).__name__, constant.dtype, constant.value)
for value, dtype in ((3, "int8"), (3, "float32"), (1, "bool")):
    constant = tvm.runtime.const(value, dtype)
    print(type(constant).__name__, constant.dtype)
made = tvm.runtime.convert([tir.Var("n", "int32"), 3])
print(len(made), made[0].name)
text = tvm.runtime.convert("abc")
print(isinstance(text, str), text)
called = tvm.runtime.convert(lambda a, b: a * 10 + b)
print(called(3, 4))
shape = tvm.runtime.ShapeTuple([2, 3, 4])
print(len(shape), shape[1], list(shape), shape == tvm.runtime.ShapeTuple([2, 3, 4]))
try:
    tvm.DataType("no_such_type")
except ValueError:
    print("ValueError")
