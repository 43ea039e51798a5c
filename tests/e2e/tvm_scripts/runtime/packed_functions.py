"""Python functions as packed functions, the registry, conversions, objects."""

import numpy as np
import tvm
from tvm.runtime import convert


@tvm.register_func("scripts.add")
def add(x, y):
    return x + y


f = tvm.get_global_func("scripts.add")
print(f(1, 2), f(1.5, 2), isinstance(f, tvm.runtime.PackedFunc))
print(tvm.get_global_func("scripts.nothing", allow_missing=True))
for wrong in (lambda: tvm.get_global_func("scripts.nothing"), lambda: tvm.register_func("scripts.add", lambda: 1)):
    try:
        wrong()
        print("no error")
    except (ValueError, tvm.TVMError):
        print("refused")
tvm.register_func("scripts.add", lambda x: x * 2, override=True)
print(tvm.get_global_func("scripts.add")(21))


def check(x, expected):
    assert x == expected, (x, expected)
    return type(x).__name__


g = convert(lambda *args: len(args))
print(g(), g(1, 2, 3), isinstance(g, tvm.runtime.PackedFunc))
print(convert(lambda x: x)(10), convert(lambda x: x)("text"), convert(lambda x: x)(None))


def apply(fn, value):
    return fn(value)


print(convert(apply)(lambda v: v + 1, 10))
arr = convert(lambda x: x.numpy().sum())(tvm.nd.array(np.ones(4, "float32")))
print(float(arr))
lst = convert([1, 2, 3])
print(type(lst).__name__, len(lst), [int(v) for v in lst], int(lst[-1]), [int(v) for v in lst[1:]])
dct = convert({"a": 1, "b": 2})
print(type(dct).__name__, sorted(str(k) for k in dct.keys()), int(dct["a"]), "a" in dct, len(dct))
s = tvm.runtime.String("hello")
print(
    s == "hello",
    s.startswith("he"),
    isinstance(s, str),
    tvm.runtime.ShapeTuple([1, 2])[1],
    len(tvm.runtime.ShapeTuple([1, 2])),
)
print(
    isinstance(convert([1]), tvm.ir.Array) or isinstance(convert([1]), tvm.ir.container.Array),
    isinstance(convert({"a": 1}), tvm.ir.container.Map),
)


def fails(_x):
    raise KeyError("inside")


try:
    convert(fails)(1)
except KeyError:
    print("KeyError")
except tvm.TVMError:
    print("TVMError")
