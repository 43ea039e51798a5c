"""Graphs built from Relay: sparse products and unique values are compiled, and modules answer as TVM's do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tunefarm as tvm
from tunefarm import relay
from tunefarm.contrib import graph_executor
from tunefarm.contrib.debugger import debug_executor

Array = np.ndarray[Any, Any]
A = np.arange(6, dtype="float32").reshape(2, 3)
W = np.ones((4, 3), "float32")


def outputs(expr: Any, **inputs: Array) -> list[Array]:
    function = relay.Function(relay.analysis.free_vars(expr), expr)
    library = relay.build(tvm.IRModule.from_expr(function), target="llvm")
    graph = graph_executor.GraphModule(library["default"](tvm.cpu()))
    graph.run(**inputs)
    return [graph.get_output(at).numpy() for at in range(graph.get_num_outputs())]


def library() -> Any:
    a, w = relay.var("a", shape=(2, 3)), relay.var("w", shape=(4, 3))
    function = relay.Function([a, w], relay.nn.relu(relay.nn.dense(a, w)))
    return relay.build(tvm.IRModule.from_expr(function), target="llvm", params={"w": tvm.nd.array(W)})


@pytest.mark.parametrize(("is_sorted", "wanted"), [(True, [1, 2, 3]), (False, [3, 1, 2])])
def test_unique_values(is_sorted: bool, wanted: list[int]) -> None:
    given = np.array([3, 1, 3, 2, 1, 3], "int32")
    x = relay.var("x", shape=(6,), dtype="int32")
    found = relay.unique(x, is_sorted=is_sorted, return_counts=True)
    values, first, inverse, number, counts = outputs(found.astuple(), x=given)
    assert number.tolist() == [3]
    assert values.tolist() == [*wanted, 0, 0, 0]
    assert given[first[:3]].tolist() == wanted
    assert values[inverse].tolist() == given.tolist()
    assert counts[:3].tolist() == [int((given == value).sum()) for value in wanted]


def test_products_with_sparse_matrices() -> None:
    weights = np.array([[0, 2, 0], [1, 0, 0], [0, 0, 3], [0, 4, 5]], "float32")
    rows, columns = np.nonzero(weights)
    parts = {
        "data": weights[rows, columns],
        "indices": columns.astype("int32"),
        "indptr": np.searchsorted(rows, np.arange(5)).astype("int32"),
    }
    a = relay.var("a", shape=(2, 3))
    sparse = [relay.var(name, shape=part.shape, dtype=str(part.dtype)) for name, part in parts.items()]
    (found,) = outputs(relay.nn.sparse_dense(a, tuple(sparse)), a=A, **parts)
    np.testing.assert_allclose(found, A @ weights.T)


def test_parameters_are_loaded_and_shared() -> None:
    built = library()
    saved = tvm.runtime.save_param_dict(built.get_params())
    first = graph_executor.create(built.get_graph_json(), built.get_lib(), tvm.cpu())
    first.load_params(saved)
    second = graph_executor.create(built.get_executor_config(), built.get_lib(), tvm.cpu())
    second.share_params(first, saved)
    second.run(a=A)
    np.testing.assert_allclose(second.get_output(0).numpy(), A @ W.T)
    assert [str(target.kind) for target in built.target] == ["llvm"]


def test_an_input_of_another_shape_is_refused_at_once() -> None:
    graph = graph_executor.GraphModule(library()["default"](tvm.cpu()))
    for given in (A[:1], tvm.nd.array(A[:1])):
        with pytest.raises(ValueError, match=r"the input a has shape \(2, 3\); an array of shape \(1, 3\) was given"):
            graph.set_input("a", given)


def test_graphs_that_show_their_kernels(tmp_path: Path) -> None:
    built = library()
    made = debug_executor.create(built.get_graph_json(), built.get_lib(), tvm.cpu(), dump_root=str(tmp_path))
    wrapped = debug_executor.GraphModuleDebug(
        built["debug_create"]("default", tvm.cpu()), [tvm.cpu()], built.get_graph_json(), str(tmp_path)
    )
    for graph in (made, wrapped):
        graph.set_input(a=A)
        graph.run()
        np.testing.assert_allclose(graph.get_output(0).numpy(), A @ W.T)
        assert graph.get_node_output(0).shape == (2, 4)
