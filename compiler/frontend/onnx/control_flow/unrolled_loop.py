"""Loops that are written out step by step."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import GraphProto

from compiler.frontend.onnx.control_flow.graph_functions import as_tensors
from compiler.frontend.onnx.control_flow.loop_shape import LoopShape
from compiler.frontend.onnx.importer import Importer, ImportScope, wants_of
from compiler.frontend.onnx.node import Node
from compiler.frontend.onnx.values import TensorValue, Value
from compiler.relax import op


def _stays_true(graph: GraphProto) -> bool:
    """Whether a loop's condition is passed on unchanged, or is always true."""
    name = graph.output[0].name
    for _ in range(len(graph.node) + 1):
        if name == graph.input[1].name:
            return True
        source = next((item for item in graph.node if name in item.output), None)
        if source is None or source.op_type not in ("Identity", "Cast", "Constant"):
            return False
        if source.op_type == "Constant":
            return any(a.name == "value" and any(a.t.raw_data or a.t.int32_data) for a in source.attribute)
        name = source.input[0]
    return False


def unrolled_loop(importer: Importer, node: Node, scope: ImportScope, shape: LoopShape, steps: int) -> Any:
    """A loop written out; None where its condition is not known before it runs."""
    g, graph = importer.g, shape.graph
    if shape.counts_steps and steps and not _stays_true(graph):
        return None
    states = list(shape.states)
    pieces: list[list[TensorValue]] = [[] for _ in shape.outputs]
    for step in range(steps):
        inner = scope.inner()
        given: list[Value | None] = []
        if shape.counts_steps:
            given += [g.known(_scalar(step)), g.known(_flag(True))]
        given += states
        for x, axis, back in shape.scanned:
            at = steps - 1 - step if back else step
            part = op.squeeze(g.emit(op.strided_slice(g.expr(x), [axis], [at], [at + 1])), [axis])
            given.append(g.value(g.emit(part), x.elem, x.wants))
        for item, value in zip(graph.input, given):
            inner.values[item.name] = value
        results = importer.graph(graph, inner)
        if shape.counts_steps:
            results = results[1:]
        states = list(results[: len(states)])
        for piece, value in zip(pieces, as_tensors(results[len(states) :], node)):
            piece.append(value)
    found: list[Any] = list(states)
    for piece, (axis, back) in zip(pieces, shape.outputs):
        parts = [g.expr(value) for value in (reversed(piece) if back else piece)]
        place = axis % (g.rank(parts[0]) + 1)
        found.append(g.value(g.emit(op.stack(parts, place)), piece[0].elem, wants_of(node.inputs)))
    return found


def _scalar(value: int) -> Any:
    return np.array(value, np.int64)


def _flag(value: bool) -> Any:
    return np.array(value)
