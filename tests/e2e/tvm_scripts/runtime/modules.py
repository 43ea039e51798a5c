"""Modules: functions by name, imports, sources, equality, calls."""

import numpy as np
import tvm
from tvm import te

n = te.size_var("n")
A = te.placeholder((n,), name="A")
B = te.compute((n,), lambda i: A[i] * 2, name="B")
C = te.compute((n,), lambda i: A[i] + 3, name="C")
mod = tvm.IRModule(
    {
        "double": tvm.lower(te.create_schedule(B.op), [A, B], name="double")["double"],
        "add": tvm.lower(te.create_schedule(C.op), [A, C], name="add")["add"],
    }
)
lib = tvm.build(mod, target="llvm")
print(lib.type_key, bool(lib.implements_function("double")), bool(lib.implements_function("other")), len(lib.imported_modules))
a, out = tvm.nd.array(np.arange(4, dtype="float32")), tvm.nd.empty((4,))
lib["double"](a, out)
print(out.numpy().tolist())
lib.get_function("add")(a, out)
print(out.numpy().tolist())
print("define" in lib.get_source("ll"), len(lib.get_source("asm")) > 0)
second = tvm.build(te.create_schedule(C.op), [A, C], "llvm", name="second")
third = tvm.build(te.create_schedule(B.op), [A, B], "llvm", name="third")
second.import_module(third)
print(len(second.imported_modules), second.get_function("third", query_imports=True) is not None)
second.get_function("third", query_imports=True)(a, out)
print(out.numpy().tolist())
second(a, out)
print(out.numpy().tolist(), second.entry_name, second.entry_func is not None)
for wrong in (lambda: lib["missing"], lambda: lib.get_function("missing"), lambda: second.get_function("third")):
    try:
        wrong()
        print("no error")
    except AttributeError:
        print("refused")
both = tvm.build({"llvm": mod})
both["add"](a, out)
print(out.numpy().tolist())
