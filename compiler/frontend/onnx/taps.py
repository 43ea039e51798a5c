"""Every tensor of an ONNX model as an output, to find the first operator that gives something else."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import onnx

from compiler.frontend.onnx.model_source import read_model


@dataclass(frozen=True)
class Tap:
    """A tensor of the model: its name, and the node that gives it."""

    tensor: str
    node: str
    operator: str


def tapped(path: Path) -> tuple[bytes, tuple[Tap, ...]]:
    """The model with every tensor of its main graph as an output, and these in order of computation.

    External data is read into it. Raises OnnxFileError.
    """
    proto, _ = read_model(path)
    whole = onnx.ModelProto()
    whole.CopyFrom(proto)
    onnx.load_external_data_for_model(whole, str(path.resolve().parent))
    taps = tuple(
        Tap(name, node.name or f"{node.op_type} {number}", node.op_type)
        for number, node in enumerate(whole.graph.node)
        for name in node.output
        if name
    )
    del whole.graph.output[:]
    whole.graph.output.extend(onnx.ValueInfoProto(name=tap.tensor) for tap in taps)
    data: bytes = whole.SerializeToString()
    return data, taps
