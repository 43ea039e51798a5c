"""The operator If. A known branch is written out; an unknown one is a call of a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onnx import GraphProto

from compiler.frontend.onnx.control_flow.graph_functions import (
    FunctionBuilder,
    Inside,
    as_tensors,
    captured,
    function_results,
)
from compiler.frontend.onnx.errors import NeedsValueError
from compiler.frontend.onnx.importer import Importer, ImportScope, wants_of
from compiler.frontend.onnx.node import Node
from compiler.frontend.onnx.values import TensorValue
from compiler.ir.base import RelaxExpr
from compiler.relax import op
from compiler.relax.nodes import Call, If
from compiler.relax.nodes.binding import as_seq


def branch(importer: Importer, node: Node, scope: ImportScope) -> Any:
    """Compute one of two graphs."""
    g = importer.g
    condition = node.value(0)
    graphs: list[GraphProto] = [node.required("then_branch"), node.required("else_branch")]
    if condition.is_constant:
        assert condition.array is not None
        chosen = graphs[0] if bool(condition.array.reshape(-1)[0]) else graphs[1]
        return importer.graph(chosen, scope.inner())
    g.begin_control()
    held = captured(g, scope, graphs, [])
    maker = FunctionBuilder(importer, scope, held)
    made: list[list[TensorValue]] = []

    def body(graph: GraphProto) -> Callable[[Inside], RelaxExpr]:
        def build(inside: Inside) -> RelaxExpr:
            results = as_tensors(importer.graph(graph, inside.scope), node)
            made.append(results)
            return g.tuple(results)

        return build

    functions = [
        maker.build(g.bb.get_unique_name(name), [], body(graph)) for name, graph in zip(("then", "otherwise"), graphs)
    ]
    for first, second in zip(*made):
        if first.dtype != second.dtype or g.rank(first) != g.rank(second):
            raise NeedsValueError.of("a condition whose branches differ in rank", condition.wants)
    flag = g.expr(condition)
    if g.rank(flag):
        flag = g.emit(op.reshape(flag, ()))
    calls = [Call(function, tuple(maker.arguments([]))) for function in functions]
    chosen_value = g.emit_control(If(flag, as_seq(calls[0]), as_seq(calls[1])))
    return function_results(g, chosen_value, made[0], wants_of(node.inputs))
