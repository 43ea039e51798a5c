"""The virtual machine's parts: inputs set beforehand, saved functions, closures, branches, timing."""
import numpy as np
import tvm
from tvm import relax
from tvm.contrib import utils
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tir as T


@I.ir_module
class Mod:
    @R.function
    def main(x: R.Tensor((2, 3), "float32"), w: R.Tensor((3, 2), "float32")):
        with R.dataflow():
            y = R.matmul(x, w)
            z = (y, R.sum(y))
            R.output(z)
        return z

    @R.function
    def choose(c: R.Tensor((), "bool"), x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
        if c:
            r = R.add(x, x)
        else:
            r = R.multiply(x, x)
        return r

    @R.function
    def recursive(n: R.Tensor((), "float32")) -> R.Tensor:
        R.func_attr({"relax.force_pure": True})
        cls = Mod
        cond = R.call_pure_packed("e2e.is_zero", n, sinfo_args=R.Tensor((), "bool"))
        if cond:
            res = R.const(1.0, "float32")
        else:
            res = R.const(2.0, "float32")
        return res

    @R.function
    def shape(x: R.Tensor(("n", "m"), "float32")) -> R.Shape(["n * m"]):
        n = T.int64()
        m = T.int64()
        s = R.shape([n * m])
        return s  # noqa: RET504


@tvm.register_func("e2e.is_zero")
def is_zero(n):
    return tvm.nd.array(np.array(float(n.numpy()) == 0.0))


ex = relax.build(Mod, "llvm")
vm = relax.VirtualMachine(ex, tvm.cpu(), profile=True)
x = np.arange(6, dtype="float32").reshape(2, 3)
w = np.ones((3, 2), "float32")
out = vm["main"](tvm.nd.array(x), tvm.nd.array(w))
print([o.numpy().tolist() for o in out])
vm.set_input("main", tvm.nd.array(x), tvm.nd.array(w))
vm.invoke_stateful("main")
print(vm.get_outputs("main")[1].numpy())
vm.save_function("main", "saved", tvm.nd.array(x), tvm.nd.array(w), include_return=True)
print(vm["saved"]()[0].numpy().tolist())
for flag in (True, False):
    print(vm["choose"](tvm.nd.array(np.array(flag)), tvm.nd.array(x)).numpy().tolist())
print(vm["recursive"](tvm.nd.array(np.float32(0))).numpy(), vm["recursive"](tvm.nd.array(np.float32(1))).numpy())
print(list(vm["shape"](tvm.nd.array(x))))
vm = relax.VirtualMachine(ex, tvm.cpu(), profile=True)
t = vm.time_evaluator("main", tvm.cpu(), number=2, repeat=3)(tvm.nd.array(x), tvm.nd.array(w))
print(len(t.results), t.mean > 0)
tmp = utils.tempdir()
path = tmp.relpath("vm.so")
ex.export_library(path)
vm2 = relax.VirtualMachine(tvm.runtime.load_module(path), tvm.cpu())
print(vm2["main"](tvm.nd.array(x), tvm.nd.array(w))[0].numpy().tolist())
try:
    vm2["main"](tvm.nd.array(x.T.copy()), tvm.nd.array(w))
except tvm.error.TVMError:
    print("refused")
try:
    vm2["nope"]
except AttributeError:
    print("no such function")
rep = vm.profile("main", tvm.nd.array(x), tvm.nd.array(w))
print("matmul" in str(rep), type(rep).__name__)


def instrument(func, symbol, before, ret, *args):
    if before:
        calls.append(symbol)


calls = []
vm3 = relax.VirtualMachine(ex, tvm.cpu())
vm3.set_instrument(instrument)
vm3["main"](tvm.nd.array(x), tvm.nd.array(w))
print([c for c in calls if "matmul" in c or "sum" in c])
