"""Packed functions: registered, passed, returned, with every kind of argument."""

import numpy as np
import tvm


@tvm.register_func("prog.concat")
def concat(*args):
    return "|".join(str(type(a).__name__ if hasattr(a, "dtype") else a) for a in args)


f = tvm.get_global_func("prog.concat")
print(f("a", 1, 2.5, None), f(), isinstance(f, tvm.runtime.PackedFunc))
print(f(tvm.nd.array(np.zeros(2))), tvm.get_global_func("prog.nothing", allow_missing=True))
g = tvm.runtime.convert(lambda x, y: x * 10 + y)
print(g(3, 4), g(1.5, 2), type(g(1, 2)).__name__)


def make(n):
    return tvm.runtime.convert(lambda x: x + n)


outer = tvm.runtime.convert(make)
print(outer(5)(6), tvm.runtime.convert(lambda h: h(2) * 2)(tvm.runtime.convert(lambda x: x + 1)))
print(
    tvm.runtime.convert(lambda: None)(),
    tvm.runtime.convert(lambda x: x)("text"),
    tvm.runtime.convert(lambda *x: len(x))(1, 2, 3),
)
arr = tvm.nd.array(np.arange(3, dtype="float32"))
print(tvm.runtime.convert(lambda x: x)(arr).numpy().tolist(), tvm.runtime.convert(lambda x: x.shape[0])(arr))
print(
    [int(v) for v in tvm.runtime.convert([1, 2, 3])],
    str(tvm.runtime.convert("s")),
    [str(v) for v in tvm.runtime.convert(("a", "b"))],
)
m = tvm.runtime.convert({"k": 1, "l": [2]})
print(sorted(str(k) for k in m.keys()), int(m["k"]), len(m["l"]))
print(tvm.runtime.convert(lambda d: d.device_id)(tvm.cpu(1)), tvm.runtime.convert(lambda t: str(t))("float32x4"))
for name in ("prog.concat", "prog.nothing"):
    print(name in tvm._ffi.registry.list_global_func_names())
try:
    tvm.register_func("prog.concat", lambda: 1)
    print("replaced")
except (ValueError, tvm.TVMError):
    print("there is one")
tvm.register_func("prog.concat", lambda: "new", override=True)
print(tvm.get_global_func("prog.concat")())


def fails(x):
    raise ValueError(f"no good: {x}")


try:
    tvm.runtime.convert(fails)(3)
except ValueError as error:
    print("no good: 3" in str(error))
try:
    tvm.get_global_func("prog.nothing")
except ValueError:
    print("none of that name")
tvm._ffi.registry.remove_global_func("prog.concat")
print(tvm.get_global_func("prog.concat", True))
