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
from compiler.runtime.vm.vm_executable import VMExecutable

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


def weights() -> Any:
    return np.linspace(-1, 1, WIDTH * WIDTH, dtype="float32").reshape(WIDTH, WIDTH)


def expected(x: Any, y: Any) -> Any:
    """The first of the model's results."""
    return np.tanh(x @ weights()) + y
