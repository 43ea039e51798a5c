"""A small model for boxes, and what it computes."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from compiler.driver.graph import build_graph
from compiler.relax.block_builder import BlockBuilder
from compiler.relax.nodes import ShapeExpr, TensorStructInfo, Tuple, Var
from compiler.relax.nodes.expr import const
from compiler.relax.op import add, matmul, tanh
from compiler.runtime.vm.machine import VirtualMachine
from compiler.runtime.vm.model_file import to_bytes
from compiler.runtime.vm.vm_executable import VMExecutable
from rpc_server.client.session import RPCSession

ROWS, WIDTH = 4, 8


@cache
def model() -> VMExecutable:
    """main(x, y) gives tanh(x @ w) + y, and tanh(x @ w)."""
    info = TensorStructInfo(ShapeExpr((ROWS, WIDTH)), "float32")
    x, y = Var("x", info), Var("y", info)
    bb = BlockBuilder()
    with bb.function("main", [x, y]):
        with bb.dataflow():
            h = bb.emit(tanh(matmul(x, const(weights()))))
            out = bb.emit_output(Tuple((add(h, y), h)))
        bb.emit_func_output(out)
    return build_graph(bb.get(), "llvm", exec_mode="compiled")


def run(session: RPCSession, seed: int = 0) -> None:
    """Have the model run on a box, in every way that there is. Raises AssertionError for a wrong result."""
    session.upload(to_bytes(model().program), "model.tunefarm")
    machine = VirtualMachine(session.load_module("model.tunefarm"), session.cpu())
    x, y = np.random.default_rng(seed).random((2, ROWS, WIDTH), dtype=np.float32)
    called, _ = machine["main"](x, y=y)
    assert machine.time_evaluator("main", session.cpu(), number=1)(x, y).mean > 0
    assert machine.profile("main", x, y).calls
    machine.set_input("main", x, y)
    machine.invoke_stateful("main")
    for first in (called, machine.get_outputs("main")[0]):
        np.testing.assert_allclose(first.numpy(), expected(x, y), rtol=1e-4, atol=1e-5, err_msg="a model is wrong")


def weights() -> Any:
    return np.linspace(-1, 1, WIDTH * WIDTH, dtype="float32").reshape(WIDTH, WIDTH)


def expected(x: Any, y: Any) -> Any:
    """The first of the model's results."""
    return np.tanh(x @ weights()) + y
