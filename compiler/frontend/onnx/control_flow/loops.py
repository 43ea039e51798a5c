"""The operator Loop.

A loop of few known steps is written out; any other becomes a function that calls itself.
"""

from __future__ import annotations

from typing import Any

from onnx import GraphProto

from compiler.frontend.onnx.control_flow.loop_shape import LoopShape
from compiler.frontend.onnx.control_flow.recursive_loop import recursive_loop
from compiler.frontend.onnx.control_flow.unrolled_loop import unrolled_loop
from compiler.frontend.onnx.errors import NeedsValueError
from compiler.frontend.onnx.importer import Importer, ImportScope, wants_of
from compiler.frontend.onnx.node import Node
from compiler.frontend.onnx.values import TensorValue

UNROLLED = 16
"""Loops of so many steps or fewer are written out."""
UNROLLED_SEQUENCES = 1024
"""The same for loops over sequences, whose length must be known."""


def loop(importer: Importer, node: Node, scope: ImportScope) -> Any:
    """Repeat a graph while a condition holds, at most `count` times."""
    graph: GraphProto = node.required("body")
    states = list(node.inputs[2:]) + [None] * (len(graph.input) - len(node.inputs))
    scans = len(graph.output) - 1 - len(states)
    shape = LoopShape(
        graph, node.optional(0), node.optional(1), states[: len(graph.input) - 2], [], [(0, False)] * scans, True
    )  # fmt: skip
    return run_loop(importer, node, scope, shape)


def run_loop(importer: Importer, node: Node, scope: ImportScope, shape: LoopShape) -> Any:
    steps = _known_steps(shape)
    over_sequences = any(not isinstance(state, TensorValue) for state in shape.states) or any(
        name.op_type.startswith("Sequence") for name in shape.graph.node
    )
    limit = UNROLLED_SEQUENCES if over_sequences else UNROLLED
    if steps is not None and steps <= limit and (steps or not shape.outputs):
        done = unrolled_loop(importer, node, scope, shape, steps)
        if done is not None:
            return done
    if over_sequences:
        raise NeedsValueError.of("the number of steps of a loop over sequences", wants_of(node.inputs))
    return recursive_loop(importer, node, scope, shape)


def _known_steps(shape: LoopShape) -> int | None:
    if shape.condition is not None and not shape.condition.is_constant:
        return None
    if shape.condition is not None and shape.condition.array is not None and not shape.condition.array.reshape(-1)[0]:
        return 0
    if shape.count is None or not shape.count.is_constant:
        return None
    assert shape.count.array is not None
    return max(int(shape.count.array.reshape(-1)[0]), 0)
