"""Modules tell their kinds, names, sources, imports and files."""

import os

import numpy as np
import tvm
from tvm import te
from tvm.contrib import utils

n = te.var("n")
A = te.placeholder((n,), name="A")
B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
s = te.create_schedule(B.op)
m = tvm.build(s, [A, B], "llvm", name="plus")
print(
    m.type_key,
    m.entry_name,
    m.is_runnable,
    m.is_dso_exportable,
    len(m.imported_modules),
    bool(m.implements_function("plus")),
)
print("plus" in m.get_source("ll"), len(m.get_source("asm")) > 0, bool(m.implements_function("minus")))
x = tvm.nd.array(np.arange(4, dtype="float32"))
y = tvm.nd.array(np.zeros(4, "float32"))
m["plus"](x, y)
print(y.numpy().tolist())
m.entry_func(x, y)
m(x, y)
for wrong in ("minus", "plus2"):
    try:
        m[wrong]
    except AttributeError:
        print("no", wrong)
folder = utils.tempdir()
path = folder.relpath("plus.so")
m.export_library(path)
again = tvm.runtime.load_module(path)
again["plus"](x, y)
print(again.type_key, os.path.exists(path), y.numpy().tolist())
o = folder.relpath("plus.o")
m.save(o)
print(os.path.getsize(o) > 0)
two = tvm.build(
    {"llvm": tvm.IRModule({"a": tvm.lower(s, [A, B], name="a")["a"], "b": tvm.lower(s, [A, B], name="b")["b"]})}
)
two["a"](x, y)
two["b"](y, x)
print(x.numpy().tolist())
t = m.time_evaluator(m.entry_name, tvm.cpu(), number=2, repeat=3)(x, y)
print(len(t.results), t.mean > 0, t.min <= t.median <= t.max, t.std >= 0, "mean" in str(t))
for wrong in (
    lambda: m["plus"](x),
    lambda: m["plus"](x, 3),
    lambda: m["plus"](x, tvm.nd.array(np.zeros(4, "int32"))),
    lambda: tvm.runtime.load_module(folder.relpath("none.so")),
):
    try:
        wrong()
        print("fine")
    except (TypeError, ValueError, OSError, tvm.TVMError):
        print("refused")
