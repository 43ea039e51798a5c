"""A scan that sums rows, and operators whose bodies are packed calls or statements of an IR builder."""

import numpy as np
import tvm
import tvm.testing
from tvm import te

state, X = te.placeholder((16, 4), name="state"), te.placeholder((16, 4), name="X")
init = te.compute((1, 4), lambda _, i: X[0, i], name="init")
update = te.compute((16, 4), lambda t, i: state[t - 1, i] + X[t, i], name="update")
sums = te.scan(init, update, state, inputs=[X], name="scan")
f = tvm.build(te.create_schedule(sums.op), [X, sums], "llvm")
x = np.random.RandomState(0).rand(16, 4).astype("float32")
out = tvm.nd.empty((16, 4))
f(tvm.nd.array(x), out)
tvm.testing.assert_allclose(out.numpy(), np.cumsum(x, 0), rtol=1e-5)
print(sums.op.scan_axis.var.name, type(sums.op).__name__, [t.name for t in sums.op.inputs], sums.op.update[0].name)


@tvm.register_func("scan_beside_calls.triple", override=True)
def triple(a, b):
    tvm.nd.array(a.numpy() * 3).copyto(b)


A = te.placeholder((8,), name="A")
called = te.extern(
    (8,), [A], lambda i, o: tvm.tir.call_packed("scan_beside_calls.triple", i[0], o[0]), name="called", dtype="float32"
)
g = tvm.build(te.create_schedule(called.op), [A, called], "llvm")
out = tvm.nd.empty((8,))
g(tvm.nd.array(np.ones(8, "float32")), out)
print(out.numpy().tolist(), type(called.op.body).__name__)


def first(ins, outs):
    ib = tvm.tir.ir_builder.create()
    ib.emit(tvm.tir.BufferStore(outs[0], tvm.tir.BufferLoad(ins[0], [0]), [0]))
    return ib.get()


print(type(te.extern((1,), [A], first, name="first", dtype="float32").op.body).__name__)
