"""The overview of TVM's names, sentence by sentence: what it says of relay, `IRModule.from_expr` and built graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tunefarm as tvm
from tunefarm import relay
from tunefarm.contrib import graph_executor

CPU = tvm.cpu()
X = np.array([[1.0, 4.0, 9.0], [0.25, 2.0, 16.0]], "float32")
Y = np.array([[2.0, 4.0, 3.0], [0.5, 1.0, 2.0]], "float32")


def value_of(expr: Any, **inputs: np.ndarray[Any, Any]) -> Any:
    """Build the expression as relay does and run it."""
    module = tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(expr), expr))
    with tvm.transform.PassContext(opt_level=3):
        library = relay.build(module, target="llvm")
    graph = graph_executor.GraphModule(library["default"](CPU))
    graph.run(**inputs)
    outputs = [graph.get_output(i).numpy() for i in range(graph.get_num_outputs())]
    return outputs if len(outputs) > 1 else outputs[0]


def test_variables() -> None:
    assert tuple(int(d) for d in relay.var("x", shape=(2, 3)).type_annotation.shape) == (2, 3)
    assert relay.var("x", shape=(2,)).type_annotation.dtype == "float32"
    typed = relay.var("x", relay.TensorType((2,), "int8"))
    assert (typed.name_hint, typed.type_annotation.dtype) == ("x", "int8")


@pytest.mark.parametrize(
    ("build", "wanted"),
    [
        (relay.greater, X > Y),
        (relay.greater_equal, X >= Y),
        (relay.divide, X / Y),
        (relay.power, X**Y),
        (relay.multiply, X * Y),
        (relay.subtract, X - Y),
    ],
)
def test_operators_of_two(build: Any, wanted: Any) -> None:
    x, y = relay.var("x", shape=(2, 3)), relay.var("y", shape=(2, 3))
    found = value_of(build(x, y), x=X, y=Y)
    assert found.dtype == wanted.dtype
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


@pytest.mark.parametrize("build", [relay.multiply, relay.subtract, relay.divide])
def test_operands_are_broadcast(build: Any) -> None:
    x, y = relay.var("x", shape=(2, 3)), relay.var("y", shape=(3,))
    by_name = {relay.multiply: np.multiply, relay.subtract: np.subtract, relay.divide: np.divide}
    np.testing.assert_allclose(value_of(build(x, y), x=X, y=Y[0]), by_name[build](X, Y[0]), rtol=1e-5)


@pytest.mark.parametrize(
    ("build", "wanted"),
    [
        (lambda x: relay.abs(x), np.abs(-X)),
        (lambda x: relay.sqrt(relay.abs(x)), np.sqrt(X)),
        (lambda x: relay.sum(x), np.sum(-X)),
        (lambda x: relay.sum(x, axis=1), np.sum(-X, 1)),
        (lambda x: relay.sum(x, axis=0, keepdims=True), np.sum(-X, 0, keepdims=True)),
        (lambda x: relay.sum(x, axis=0, exclude=True), np.sum(-X, 1)),
    ],
)
def test_operators_of_one(build: Any, wanted: Any) -> None:
    np.testing.assert_allclose(value_of(build(relay.var("x", shape=(2, 3))), x=-X), wanted, rtol=1e-5)


def test_products_and_biases() -> None:
    x, w, b = relay.var("x", shape=(2, 3)), relay.var("w", shape=(4, 3)), relay.var("b", shape=(4,))
    weights, bias = np.ones((4, 3), "float32"), np.arange(4, dtype="float32")
    dense = relay.nn.dense(x, w, units=4)
    np.testing.assert_allclose(value_of(dense, x=X, w=weights), X @ weights.T, rtol=1e-5)
    biased = relay.nn.bias_add(dense, b)
    np.testing.assert_allclose(value_of(biased, x=X, w=weights, b=bias), X @ weights.T + bias, rtol=1e-5)
    rows = relay.nn.bias_add(x, relay.var("r", shape=(2,)), axis=0)
    np.testing.assert_allclose(value_of(rows, x=X, r=bias[:2]), X + bias[:2, None], rtol=1e-5)


def test_functions_have_a_text() -> None:
    x = relay.var("x", shape=(2, 3))
    func = relay.Function([x], relay.sqrt(x))
    assert "sqrt" in func.astext()
    assert list(func.params) == [x]


def test_free_variables_come_in_post_order() -> None:
    x, y, z = (relay.var(name, shape=(2, 3)) for name in "xyz")
    assert list(relay.analysis.free_vars(relay.add(relay.multiply(y, x), z))) == [y, x, z]
    assert list(relay.analysis.free_vars(relay.Function([x], relay.add(x, z)))) == [z]
    assert list(relay.analysis.free_type_vars(relay.Function([x], x))) == []


def test_a_built_graph() -> None:
    x, w = relay.var("x", shape=(2, 3)), relay.var("w", shape=(4, 3))
    module = tvm.IRModule.from_expr(relay.Function([x, w], relay.nn.dense(x, w)))
    weights = np.ones((4, 3), "float32")
    library = relay.build(module, target="llvm", params={"w": tvm.nd.array(weights)}, mod_name="default")
    graph = graph_executor.GraphModule(library["default"](CPU))
    graph.set_input("x", X)
    graph.run()
    wanted = X @ weights.T
    np.testing.assert_allclose(graph.get_output(0).numpy(), wanted, rtol=1e-5)
    assert graph.get_num_outputs() == 1
    assert graph.get_num_inputs() >= 1
    assert graph.get_input_index("x") == 0
    assert graph.get_input_index("no such input") == -1
    np.testing.assert_allclose(graph.get_input("x").numpy(), X)
    held = tvm.nd.empty((2, 4), "float32")
    graph.get_output(0, held)
    np.testing.assert_allclose(held.numpy(), wanted, rtol=1e-5)
    shapes, dtypes = graph.get_input_info()
    assert (tuple(shapes["x"]), dtypes["x"]) == ((2, 3), "float32")
    mine, out = tvm.nd.array(2 * X), tvm.nd.empty((2, 4), "float32")
    graph.set_input_zero_copy("x", mine)
    graph.set_output_zero_copy(0, out)
    graph.run()
    np.testing.assert_allclose(out.numpy(), 2 * wanted, rtol=1e-5)
    assert graph.benchmark(CPU, repeat=2, number=1).mean > 0
