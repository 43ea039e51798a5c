"""Graphs made by relax.BlockBuilder, emit_te and call_dps_packed; printed and run."""
import numpy as np
import tvm
import tvm.testing
from tvm import relax, te, tir, topi


def scaled(a, b):
    return te.compute(a.shape, lambda *i: a(*i) * b(*i) + 1.0, name="scaled")


bb = relax.BlockBuilder()
n = tir.Var("n", "int64")
x = relax.Var("x", relax.TensorStructInfo((n, 16), "float32"))
w = relax.Var("w", relax.TensorStructInfo((16, 8), "float32"))
with bb.function("main", [x, w]):
    with bb.dataflow():
        lv0 = bb.emit(relax.op.matmul(x, w), name_hint="prod")
        lv1 = bb.emit_te(topi.nn.relu, lv0)
        lv2 = bb.emit_te(scaled, lv1, lv0, primfunc_name_hint="scale_it")
        gv = bb.emit_output(lv2)
    bb.emit_func_output(gv)
mod = bb.get()
print(bool(relax.analysis.well_formed(mod)))
print(mod["main"].ret_struct_info)
print(bool(mod["scale_it"].attrs["tir.noalias"]))


@tvm.register_func("e2e.column_sum")
def column_sum(a, out):
    out.copyfrom(a.numpy().sum(axis=0))


bb = relax.BlockBuilder()
y = relax.Var("y", relax.TensorStructInfo((3, 8), "float32"))
with bb.function("main", [y]):
    with bb.dataflow():
        s = bb.emit(relax.op.call_dps_packed("e2e.column_sum", [y], relax.TensorStructInfo((8,), "float32")))
        t = bb.emit(relax.op.exp(y))
        out = bb.emit_output(relax.Tuple([s, t]))
    bb.emit_func_output(out)
mod2 = bb.get()
print(mod2["main"].ret_struct_info)
for m in (mod, mod2):
    m = relax.get_pipeline("zero")(m)
    vm = relax.VirtualMachine(relax.build(m, target="llvm"), tvm.cpu())
    if m["main"].params[0].name_hint == "x":
        for rows in (1, 5):
            a = np.random.rand(rows, 16).astype("float32")
            b = np.random.rand(16, 8).astype("float32") - 0.5
            got = vm["main"](tvm.nd.array(a), tvm.nd.array(b)).numpy()
            p = a @ b
            tvm.testing.assert_allclose(got, np.maximum(p, 0) * p + 1, rtol=1e-4)
            print(got.shape)
    else:
        a = np.random.rand(3, 8).astype("float32")
        got = vm["main"](tvm.nd.array(a))
        print(len(got), [g.shape for g in got])
        tvm.testing.assert_allclose(got[0].numpy(), a.sum(0), rtol=1e-5)
        tvm.testing.assert_allclose(got[1].numpy(), np.exp(a), rtol=1e-5)
