"""External operators, several outputs, intrinsics with rules, printing of lowered modules; contrib modules."""
import ctypes
import os

import numpy as np
import tvm
import tvm.testing
from tvm import te, topi
from tvm.contrib import cc, ndk, popen_pool, tar, utils

n, m, l = 16, 12, 8
A = te.placeholder((n, l), name="A")
B = te.placeholder((l, m), name="B")


@tvm.register_func("e2e.my_gemm", override=True)
def my_gemm(a, b, c):
    tvm.nd.array(np.dot(a.numpy(), b.numpy())).copyto(c)


C = te.extern((n, m), [A, B], lambda ins, outs: tvm.tir.call_packed("e2e.my_gemm", ins[0], ins[1], outs[0]), name="C", dtype="float32")
bias = te.var("bias", dtype="float32")
D = te.compute(C.shape, lambda i, j: C[i, j] + bias, name="D")
s = te.create_schedule(D.op)
f = tvm.build(s, [A, B, D, bias], "llvm", name="gemm_bias")
a = tvm.nd.array(np.random.rand(n, l).astype("float32"))
b = tvm.nd.array(np.random.rand(l, m).astype("float32"))
d = tvm.nd.array(np.zeros((n, m), "float32"))
f(a, b, d, 10.0)
tvm.testing.assert_allclose(d.numpy(), a.numpy() @ b.numpy() + 10, rtol=1e-5)
with tvm.target.Target("llvm"):
    x = te.placeholder((4, 5), name="x")
    y = topi.sum(topi.nn.softmax(x), axis=1)
    sch = te.create_schedule(y.op)
    g = tvm.build(sch, [x, y])
out = tvm.nd.empty((4,))
g(tvm.nd.array(np.random.rand(4, 5).astype("float32")), out)
tvm.testing.assert_allclose(out.numpy(), np.ones(4), rtol=1e-5)
try:
    os.environ.pop("TVM_NDK_CC", None)
    ndk.create_shared("x.so", ["x.o"])
except RuntimeError as e:
    print("TVM_NDK_CC" in str(e))
t = utils.tempdir()
with open(t.relpath("a.cc"), "w") as h:
    h.write("extern \"C\" int twice(int x) { return 2 * x; }\n")
cc.create_shared(t.relpath("a.so"), [t.relpath("a.cc")])
print(ctypes.CDLL(t.relpath("a.so")).twice(21), sorted(t.listdir()))
tar.tar(t.relpath("x.tar"), [t.relpath("a.cc")])
os.mkdir(t.relpath("sub"))
tar.untar(t.relpath("x.tar"), t.relpath("sub"))
print(sorted(os.listdir(t.relpath("sub"))))
print(cc.get_cc() is not None, utils.which("sh") is not None, utils.is_source_path("int main() {\n}"), cc.create_shared.output_format)
print(cc.get_target_by_dump_machine("gcc")() .split("-")[0])
pool = popen_pool.PopenPoolExecutor(max_workers=1)
print(type(pool).__name__)
print(bool(tvm.runtime.enabled("llvm")), bool(tvm.cpu(0).exist), tvm.device("cpu", 0) == tvm.cpu(0))
