"""Operators of the default domain as parts of others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from compiler.frontend.onnx.graph_builder import GraphBuilder
from compiler.frontend.onnx.node import Node
from compiler.frontend.onnx.registry import INTEGER_RULES, find
from compiler.frontend.onnx.values import TensorValue, Value
from compiler.ir.base import RelaxExpr

OPSET = 21


def apply(g: GraphBuilder, node: Node, name: str, inputs: Sequence[Value | None], **attrs: Any) -> TensorValue:
    """The first result of an operator of the default domain, for a part of `node`."""
    part = replace(node, op=name, domain="", opset=OPSET, attrs=attrs, inputs=list(inputs), outputs=("part",))
    held = INTEGER_RULES.get(name)
    made: Any = None
    if held is not None and any(isinstance(v, TensorValue) and v.integers is not None for v in inputs):
        made = held(g, part)
    if made is None:
        rule = find("", name, OPSET)
        if rule is None:
            node.fail(f"there is no operator {name}")
        made = rule(g, part)
    if isinstance(made, list | tuple):
        made = made[0]
    found = g.value(made) if isinstance(made, RelaxExpr) else made
    assert isinstance(found, TensorValue)
    return found
