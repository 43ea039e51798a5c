"""A toy operator, declared here and nowhere else: built, known, interpreted, compiled, printed and read."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tunefarm as tvm
from compiler import topi
from compiler.errors import IRError
from compiler.relax import interp
from compiler.relax.nodes import Expr, TensorStructInfo, Var
from compiler.relax.op.core.layout import follows
from compiler.relax.op.core.params import TensorArg
from compiler.relax.op.core.registry import OPERATORS, OpPatternKind, operator, refused
from compiler.relax.op.core.rules import like
from compiler.relax.op.core.work import per_output
from compiler.tir import nodes as n
from tunefarm import relax
from tunefarm.script import from_source


@pytest.fixture
def scaled_relu() -> Iterator[Callable[..., Any]]:
    @operator(
        "relax.toy_scaled_relu",
        infer=like("x", floats=True),
        te=lambda x, scale: topi.multiply(topi.maximum(x, 0.0), scale),
        pattern=OpPatternKind.ELEMWISE,
        flops=per_output(2),
        layout=follows,
        gradient=refused("a toy is not trained"),
    )
    def toy_scaled_relu(x: TensorArg, scale: float = 2.0) -> Expr:
        """Scale what is positive."""

    yield toy_scaled_relu
    del OPERATORS["relax.toy_scaled_relu"]


def module(scaled_relu: Callable[..., Any]) -> tvm.IRModule:
    rows = n.Var("rows", "int64")
    x = Var("x", TensorStructInfo((rows, 3), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(builder.emit(scaled_relu(x, scale=3.0)))
        builder.emit_func_output(result)
    return builder.get()


def test_one_declaration_is_all_that_an_operator_needs(scaled_relu: Callable[..., Any]) -> None:
    mod = module(scaled_relu)
    data = np.array([[-1, 2, 0], [4, -5, 6]], "float32")
    expected = np.maximum(data, 0) * 3
    assert "R.toy_scaled_relu(x" in mod.script()
    again = from_source(mod.script())
    tvm.ir.assert_structural_equal(again, mod)
    np.testing.assert_array_equal(interp.run(mod, data), expected)
    vm = relax.VirtualMachine(relax.build(again, "llvm"), tvm.cpu())
    np.testing.assert_array_equal(vm["main"](data).numpy(), expected)


def test_its_rule_refuses_what_does_not_fit(scaled_relu: Callable[..., Any]) -> None:
    whole = Var("whole", TensorStructInfo((2,), "int32"))
    with pytest.raises(IRError, match="toy_scaled_relu"):
        relax.BlockBuilder().normalize(scaled_relu(whole))
