"""Errors of imported models."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from compiler.errors import CompileError


class OnnxImportError(CompileError, ValueError, kind="onnx_import"):
    """A model that cannot become a graph: broken, or beyond what the importer does."""


class OnnxFileError(OnnxImportError, kind="onnx_file"):
    """A file that is no model, is too large or too deep, or refers to data outside its folder."""


@dataclass(frozen=True, slots=True)
class UnsupportedNode:
    """A node whose operator the importer does not have. `reason` is "" for an unknown operator."""

    operator: str
    domain: str
    opset: int
    node: str
    reason: str = ""

    def __str__(self) -> str:
        domain = self.domain or "ai.onnx"
        why = f": {self.reason}" if self.reason else ""
        return f"{domain}.{self.operator} (opset {self.opset}) at node {self.node!r}{why}"


class UnsupportedOperatorsError(OnnxImportError, kind="onnx_unsupported"):
    """Every node of a model whose operator is not supported; nothing was built."""

    @staticmethod
    def of(nodes: Sequence[UnsupportedNode]) -> UnsupportedOperatorsError:
        """The error that lists `nodes`."""
        names = sorted({f"{node.domain or 'ai.onnx'}.{node.operator}" for node in nodes})
        lines = "".join(f"\n  {node}" for node in nodes[:100])
        more = f"\n  … and {len(nodes) - 100} more nodes" if len(nodes) > 100 else ""
        return UnsupportedOperatorsError(
            f"the model has {len(names)} operator{'s' * (len(names) != 1)} that cannot be imported: "
            f"{', '.join(names)}{lines}{more}",
            detail={"operators": names, "nodes": [node.node for node in nodes]},
        )


class NeedsValueError(OnnxImportError, kind="onnx_needs_value"):
    """A parameter that decides the shape of the graph comes from inputs whose values are not known.

    `inputs` are the model's inputs that it comes from: a model imported with their values can be built.
    """

    @staticmethod
    def of(what: str, inputs: Iterable[str]) -> NeedsValueError:
        """The error for the parameter `what`, which is computed from `inputs`."""
        names = sorted(inputs)
        return NeedsValueError(
            f"{what} must be known when the model is imported, but comes from the inputs {', '.join(names)}"
            if names
            else f"{what} must be known when the model is imported, but is computed when it runs",
            hint="give the values of these inputs as initializers" if names else None,
            detail={"inputs": names},
        )
