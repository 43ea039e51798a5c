"""A model as the newer version's quick start has it: compiled by tvm.compile, run on tensors."""
import numpy as np
import tvm
import tvm.testing
from tvm import relax
from tvm.relax.frontend import nn


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(20, 16)
        self.relu1 = nn.ReLU()
        self.fc2 = nn.Linear(16, 10, bias=False)

    def forward(self, x):
        return self.fc2(self.relu1(self.fc1(x)))


mod, params = Mlp().export_tvm({"forward": {"x": nn.spec.Tensor((1, 20), "float32")}})
print([name for name, _ in params])
target = tvm.target.Target("llvm")
ex = tvm.compile(mod, target)
dev = tvm.cpu()
vm = relax.VirtualMachine(ex, dev)
rng = np.random.RandomState(0)
data = rng.rand(1, 20).astype("float32")
values = [rng.rand(*[int(s) for s in p.shape]).astype("float32") for _, p in params]
out = vm["forward"](tvm.runtime.tensor(data, device=dev), *[tvm.runtime.tensor(v, device=dev) for v in values])
tvm.testing.assert_allclose(out.numpy(), np.maximum(data @ values[0].T + values[1], 0) @ values[2].T, rtol=1e-5)
print(out.shape, out.dtype, type(out).__name__ in ("Tensor", "NDArray"))
x = tvm.runtime.empty((2, 3), "float16", dev)
print(x.shape, x.dtype)
y = tvm.runtime.from_dlpack(tvm.runtime.tensor(np.arange(4, dtype="int32")))
print(y.numpy().tolist())


@tvm.register_global_func("e2e.twice")
def twice(x):
    return tvm.runtime.tensor(x.numpy() * 2)


f = tvm.get_global_func("e2e.twice")
print(f(tvm.runtime.tensor(np.ones(2, "float32"))).numpy().tolist())
mod = relax.get_pipeline("zero")(mod)
print(len(mod.get_global_vars()) > 2)
pipe = tvm.ir.transform.Sequential([relax.transform.LegalizeOps(), relax.transform.FoldConstant()])
print(type(pipe(mod)).__name__)
with target:
    m2 = tvm.s_tir.dlight.ApplyDefaultSchedule(tvm.s_tir.dlight.cpu.GEMV())(mod)
print(len(m2.functions) == len(mod.functions))
