"""Functions of operations with several results, and of scalars: their blocks, loops and attributes."""

import numpy as np
import tvm
from tvm import te


def blocks(func):
    sch = tvm.tir.Schedule(func)
    found = []
    for block in map(sch.get, sch.get_child_blocks(sch.get_block("root"))):
        loops = sch.get_loops(sch.get_block(block.name_hint))
        extents = [int(axis.dom.extent) for axis in block.iter_vars]
        found.append((block.name_hint, [region.buffer.name.replace(".", "_") for region in block.writes], extents, len(loops)))
    return found


argmax = te.comm_reducer(
    lambda x, y: (tvm.tir.Select(x[1] >= y[1], x[0], y[0]), tvm.tir.Select(x[1] >= y[1], x[1], y[1])),
    lambda t0, t1: (tvm.tir.const(-1, t0), te.min_value(t1)),
    name="argmax",
)
places, values = te.placeholder((16, 16), "int32", name="places"), te.placeholder((16, 16), name="values")
k = te.reduce_axis((0, 16), "k")
T0, T1 = te.compute((16,), lambda i: argmax((places[i, k], values[i, k]), axis=k), name="T")
func = te.create_prim_func([places, values, T0, T1])
print(blocks(func), len(func.params))
a = np.random.RandomState(0).rand(16, 16).astype("float32")
first, second = tvm.nd.empty((16,), "int32"), tvm.nd.empty((16,), "float32")
tvm.build(func, target="llvm")(tvm.nd.array(np.tile(np.arange(16, dtype="int32"), (16, 1))), tvm.nd.array(a), first, second)
print(bool((first.numpy() == a.argmax(1)).all()), bool((second.numpy() == a.max(1)).all()))

A = te.placeholder((4, 5), name="A")
C0, C1 = te.compute((4, 5), lambda i, j: (A[i, j] + 1.0, A[i, j] * 2.0), name="C")
D = te.compute((4, 5), lambda i, j: C0[i, j] + C1[i, j], name="D")
print(blocks(te.create_prim_func([A, D])))
x = te.placeholder((), name="x")
y0, y1 = te.compute((), lambda: (x() + 1.0, x() * 2.0), name="y")
print(blocks(te.create_prim_func([x, y0, y1])))

func = func.with_attr({"number": 3, "text": "s"})
print(func.attrs["number"], func.attrs.text, "number" in func.attrs, "none" in func.attrs, func.attrs.get("none"))
print(isinstance(func.attrs, tvm.ir.DictAttrs), sorted(func.without_attr("text").attrs.keys()))
print(sorted(key for key, _ in func.attrs.items()), len(func.attrs))
