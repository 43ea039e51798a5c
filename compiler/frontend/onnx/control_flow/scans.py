"""Scan: a loop over slices of tensors."""

from __future__ import annotations

from typing import Any

from onnx import GraphProto, TensorProto

from compiler.frontend.onnx.control_flow.loop_shape import LoopShape
from compiler.frontend.onnx.control_flow.loops import run_loop
from compiler.frontend.onnx.importer import Importer, ImportScope
from compiler.frontend.onnx.node import Node
from compiler.frontend.onnx.values import TensorValue, plain
from compiler.ir.base import RelaxExpr
from compiler.relax import op
from compiler.tir import ops


def scan(importer: Importer, node: Node, scope: ImportScope) -> Any:
    """Run a graph over slices of tensors, and stack what it gives."""
    if node.opset < 9:
        return _batched_scan(importer, node, scope)
    graph: GraphProto = node.required("body")
    count = node.int("num_scan_inputs", 1)
    states = list(node.inputs[: len(node.inputs) - count])
    inputs = [node.value(len(states) + k) for k in range(count)]
    axes = node.ints("scan_input_axes") or [0] * count
    turned = node.ints("scan_input_directions") or [0] * count
    scans = len(graph.output) - len(states)
    out_axes = node.ints("scan_output_axes") or [0] * scans
    out_turned = node.ints("scan_output_directions") or [0] * scans
    g = importer.g
    scanned = [(x, axis % g.rank(x), bool(back)) for x, axis, back in zip(inputs, axes, turned)]
    steps = g.shape(inputs[0])[scanned[0][1]]
    vector = g.vector([steps])
    assert vector.array is not None
    length = TensorValue("int64", int(TensorProto.INT64), None, vector.array.reshape(()))
    shape = LoopShape(
        graph, length, None, states, scanned, [(a, bool(b)) for a, b in zip(out_axes, out_turned)], False
    )  # fmt: skip
    return run_loop(importer, node, scope, shape)


def _batched_scan(importer: Importer, node: Node, scope: ImportScope) -> Any:
    """Scan as before opset 9: the first dimension is a batch, each of whose samples is scanned by itself."""
    g, graph = importer.g, node.required("body")
    if node.given(0):
        node.fail("Scan of opset 8 with lengths of sequences", hint="onnx.version_converter makes it opset 9")
    count = node.int("num_scan_inputs", 1)
    given = [node.value(k) for k in range(1, len(node.inputs))]
    states, inputs = given[: len(given) - count], given[len(given) - count :]
    turned = [bool(back) for back in node.ints("directions") or [0] * count]
    batch = ops.as_int(g.shape(inputs[0])[0])
    if batch is None:
        node.fail("Scan of opset 8 needs a batch size that is known")
    outputs = [(0, False)] * (len(graph.output) - len(states))
    found: list[list[RelaxExpr]] = []
    for number in range(batch):
        own = [g.value(g.emit(op.take(g.expr(x), g.full(number, "int64"), 0)), x.elem, x.wants) for x in given]
        scanned = [(x, 0, back) for x, back in zip(own[len(states) :], turned)]
        length = g.known(plain([g.shape(own[-1])[0]]).reshape(()))
        shape = LoopShape(graph, length, None, list(own[: len(states)]), scanned, outputs, False)
        found.append([g.expr(value) for value in run_loop(importer, node, scope, shape)])
    return [op.stack(list(values), 0) for values in zip(*found)]
