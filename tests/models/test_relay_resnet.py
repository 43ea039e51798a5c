"""ResNet-18 of relay.testing by GraphModule, here and on a box, beside the same network written in relax."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tunefarm as tvm
from rpc_server.box.server import Server
from rpc_server.client.connect import open_session
from tunefarm import relax, relay
from tunefarm.contrib import graph_executor
from tunefarm.relax import BlockBuilder, Expr, TensorStructInfo, Var, op

SHAPE = (1, 3, 224, 224)


def network(params: dict[str, Any]) -> Any:
    """The network in relax, with the weights that relay's has."""
    bb = BlockBuilder()
    held = {name: relax.const(value.numpy()) for name, value in params.items()}

    def norm(data: Expr, name: str, scale: bool = True) -> Expr:
        gamma, beta, mean, var = (held[f"{name}_{part}"] for part in ("gamma", "beta", "moving_mean", "moving_var"))
        made = op.nn.batch_norm(data, gamma, beta, mean, var, axis=1, epsilon=2e-5, scale=scale, training=False)
        return bb.emit(relax.TupleGetItem(made, 0))

    def activated(data: Expr, name: str) -> Expr:
        return bb.emit(op.nn.relu(norm(data, name)))

    def conv(data: Expr, name: str, stride: int = 1, padding: int = 1) -> Expr:
        return bb.emit(op.nn.conv2d(data, held[f"{name}_weight"], strides=stride, padding=padding))

    def unit(data: Expr, name: str, stride: int, widens: bool) -> Expr:
        first = activated(data, f"{name}_bn1")
        made = conv(activated(conv(first, f"{name}_conv1", stride), f"{name}_bn2"), f"{name}_conv2")
        return bb.emit(op.add(made, conv(first, f"{name}_sc", stride, 0) if widens else data))

    x = Var("data", TensorStructInfo(SHAPE, "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            data = activated(conv(norm(x, "bn_data", scale=False), "conv0", 2, 3), "bn0")
            data = bb.emit(op.nn.max_pool2d(data, (3, 3), strides=2, padding=1))
            for stage in range(1, 5):
                data = unit(data, f"stage{stage}_unit1", 1 if stage == 1 else 2, widens=True)
                data = unit(data, f"stage{stage}_unit2", 1, widens=False)
            data = bb.emit(op.mean(activated(data, "bn1"), [2, 3]))
            data = bb.emit(op.add(op.matmul(data, op.permute_dims(held["fc1_weight"])), held["fc1_bias"]))
            out = bb.emit_output(op.nn.softmax(data))
        bb.emit_func_output(out)
    return bb.get()


@pytest.mark.slow
def test_relay_relax_and_a_box_agree(tmp_path: Path) -> None:
    mod, params = relay.testing.resnet.get_workload(num_layers=18, image_shape=SHAPE[1:])
    path = tmp_path / "resnet18.tar"
    relay.build(mod, "llvm", params=params).export_library(str(path))
    image = np.random.default_rng(0).random(SHAPE, dtype=np.float32)
    here = graph_executor.GraphModule(tvm.runtime.load_module(str(path))["default"](tvm.cpu()))
    here.set_input("data", image)
    here.run()
    found = here.get_output(0).numpy()
    assert found.shape == (1, 1000)
    assert found.sum() == pytest.approx(1, abs=1e-4)

    machine = relax.VirtualMachine(relax.build(network(params), "llvm"), tvm.cpu())
    np.testing.assert_allclose(found, machine["main"](image).numpy(), rtol=1e-4, atol=1e-6)

    with Server(port=0, silent=True) as server, open_session("127.0.0.1", server.port, wait_s=60) as remote:
        remote.upload(path)
        there = graph_executor.GraphModule(remote.load_module(path.name)["default"](remote.cpu()))
        there.set_input("data", image)
        there.run()
        np.testing.assert_array_equal(there.get_output(0).numpy(), found)
