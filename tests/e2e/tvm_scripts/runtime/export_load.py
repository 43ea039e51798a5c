"""Modules written to files and read back: shared objects, objects, tar; sources; several functions."""

import os

import numpy as np
import tvm
from tvm import te
from tvm.contrib import cc, utils

n = 8
A = te.placeholder((n,), name="A")
B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
s = te.create_schedule(B.op)
mod = tvm.build(s, [A, B], "llvm", name="addone")
print(mod.type_key, mod.entry_name, len(mod.imported_modules), mod["addone"] is not None)
temp = utils.tempdir()
path = temp.relpath("lib.so")
mod.export_library(path)
print(os.path.exists(path), temp.listdir())
loaded = tvm.runtime.load_module(path)
a, b = tvm.nd.array(np.arange(n, dtype="float32")), tvm.nd.empty((n,))
loaded["addone"](a, b)
print(b.numpy().tolist())
mod.save(temp.relpath("lib.o"))
cc.create_shared(temp.relpath("lib2.so"), [temp.relpath("lib.o")])
again = tvm.runtime.load_module(temp.relpath("lib2.so"))
b = tvm.nd.empty((n,))
again.get_function("addone")(a, b)
print(b.numpy().tolist())
mod.export_library(temp.relpath("lib.tar"))
tarred = tvm.runtime.load_module(temp.relpath("lib.tar"))
b = tvm.nd.empty((n,))
tarred["addone"](a, b)
print(b.numpy().tolist())
text = mod.get_source("ll")
print("define" in text, "addone" in text, len(mod.get_source("asm")) > 0)
m1 = tvm.lower(s, [A, B], name="one")
C = te.compute((n,), lambda i: A[i] * 2.0, name="C")
m2 = tvm.lower(te.create_schedule(C.op), [A, C], name="two")
m1.update(m2)
both = tvm.build(m1, target="llvm")
both["two"](a, b)
print(b.numpy().tolist())
both["one"](a, b)
print(b.numpy().tolist())
try:
    both["three"]
    print("no error")
except AttributeError:
    print("AttributeError")
for wrong in (
    lambda: mod(a),
    lambda: mod(a, tvm.nd.empty((n + 1,))),
    lambda: mod(a, tvm.nd.empty((n,), "int32")),
    lambda: tvm.runtime.load_module("/nowhere/lib.so"),
):
    try:
        wrong()
        print("no error")
    except (tvm.TVMError, ValueError, TypeError, OSError):
        print("refused")
