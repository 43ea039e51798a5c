"""The shape of a loop: its body, its number of iterations, its sequences."""

from __future__ import annotations

from dataclasses import dataclass

from onnx import GraphProto

from compiler.frontend.onnx.values import TensorValue, Value


@dataclass(slots=True, eq=False)
class LoopShape:
    """A loop: `count` is its number of steps (None: no limit), `scans` how an input is read in each step."""

    graph: GraphProto
    count: TensorValue | None
    condition: TensorValue | None
    states: list[Value | None]
    scanned: list[tuple[TensorValue, int, bool]]
    outputs: list[tuple[int, bool]]
    counts_steps: bool
