"""A model written with relax.frontend.nn, exported, optimised and run."""
import numpy as np
import tvm
import tvm.testing
from tvm import relax
from tvm.relax.frontend import nn


class FeedForward(nn.Module):
    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.up = nn.Linear(width, hidden)
        self.act = nn.SiLU()
        self.down = nn.Linear(hidden, width, bias=False)
        self.norm = nn.RMSNorm(width, axes=-1, epsilon=1e-5, bias=False)

    def forward(self, x: nn.Tensor):
        return self.norm(x + self.down(self.act(self.up(x))))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([FeedForward(8, 16) for _ in range(2)])
        self.head = nn.Linear(8, 4)

    def forward(self, x: nn.Tensor):
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


net = Net()
print([name for name, _ in net.named_parameters()])
print(sum(int(np.prod([int(s) for s in p.shape])) for p in net.parameters()))
mod, params = net.export_tvm(spec={"forward": {"x": nn.spec.Tensor([3, 8], "float32")}})
print([gv.name_hint for gv in mod.get_global_vars()])
print([(n, [int(s) for s in p.shape], p.dtype) for n, p in params])
func = mod["forward"]
print([str(p.struct_info) for p in func.params][:2], func.ret_struct_info)
print(func.attrs["num_input"])

rng = np.random.default_rng(3)
values = {n: rng.uniform(-0.5, 0.5, [int(s) for s in p.shape]).astype("float32") for n, p in params}
mod = relax.transform.LegalizeOps()(mod)
ex = relax.build(mod, "llvm")
vm = relax.VirtualMachine(ex, tvm.cpu())
x = rng.uniform(-1, 1, (3, 8)).astype("float32")
args = [tvm.nd.array(x)] + [tvm.nd.array(values[n]) for n, _ in params]
out = vm["forward"](*args).numpy()


def ref(x):
    for i in range(2):
        p = {k.split(".", 2)[2]: v for k, v in values.items() if k.startswith(f"layers.{i}.")}
        h = x @ p["up.weight"].T + p["up.bias"]
        h = h / (1 + np.exp(-h))
        y = x + h @ p["down.weight"].T
        x = y / np.sqrt((y * y).mean(-1, keepdims=True) + 1e-5) * p["norm.weight"]
    return x @ values["head.weight"].T + values["head.bias"]


tvm.testing.assert_allclose(out, ref(x), rtol=1e-4, atol=1e-5)
print(out.shape, out.dtype)

state = net.state_dict()
print(list(state)[:3], net.head.weight.shape, net.head.weight.dtype)
net.to("float16")
print(net.head.weight.dtype)
lowered, _, = Net().export_tvm({"forward": {"x": nn.spec.Tensor(["n", 8], "float32")}})[:2]
print(lowered["forward"].params[0].struct_info, lowered["forward"].ret_struct_info)
