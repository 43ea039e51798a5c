"""Turn inner tensors of an ONNX model into results, to find the first operator that differs."""

from __future__ import annotations

from collections.abc import Sequence
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


class TappedModel:
    """A model that may be cut anywhere.
    `taps` are the tensors of its main graph, in order of computation.

    External data is read into it. Raises OnnxFileError.
    """

    def __init__(self, path: Path) -> None:
        proto, _ = read_model(path)
        self._whole = onnx.ModelProto()
        self._whole.CopyFrom(proto)
        onnx.load_external_data_for_model(self._whole, str(path.resolve().parent))
        self.taps = tuple(
            Tap(name, node.name or f"{node.op_type} {number}", node.op_type)
            for number, node in enumerate(self._whole.graph.node)
            for name in node.output
            if name
        )

    def with_results(self, taps: Sequence[Tap]) -> bytes:
        """The model as a file whose results are these tensors alone."""
        del self._whole.graph.output[:]
        self._whole.graph.output.extend(onnx.ValueInfoProto(name=tap.tensor) for tap in taps)
        data: bytes = self._whole.SerializeToString()
        return data
