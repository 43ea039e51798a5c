"""A node of a model as converters see it: its attributes as Python values, its inputs as values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from onnx import AttributeProto, NodeProto, numpy_helper

from compiler.frontend.onnx.errors import OnnxImportError
from compiler.frontend.onnx.values import TensorValue, Value

_A = AttributeProto


@dataclass(slots=True, eq=False)
class Node:
    """One use of an operator. `opset` is the version of its domain that is in force there."""

    proto: NodeProto
    op: str
    domain: str
    opset: int
    name: str
    attrs: Mapping[str, Any]
    inputs: Sequence[Value | None]
    outputs: Sequence[str]
    declared: Mapping[str, Any] = field(default_factory=dict)
    """What the model says of its outputs: type protos by name."""

    def fail(self, message: str, hint: str | None = None) -> NoReturn:
        """Raise OnnxImportError for this node."""
        raise OnnxImportError(f"{self.op} at node {self.name!r}: {message}", hint=hint)

    def given(self, index: int) -> bool:
        """Whether the input `index` is there."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def value(self, index: int) -> TensorValue:
        """The input `index`, which must be a tensor."""
        if not self.given(index):
            self.fail(f"the input {index} is missing")
        found = self.inputs[index]
        if not isinstance(found, TensorValue):
            self.fail(f"the input {index} is no tensor")
        return found

    def optional(self, index: int) -> TensorValue | None:
        """The input `index`; None where it is left out."""
        return self.value(index) if self.given(index) else None

    def wanted(self, index: int) -> bool:
        """Whether the output `index` has a name."""
        return index < len(self.outputs) and bool(self.outputs[index])

    # ------------------------------------------------------------------------- attributes

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute, or `default` where it is not given."""
        return self.attrs.get(name, default)

    def required(self, name: str) -> Any:
        """An attribute that must be given."""
        if name not in self.attrs:
            self.fail(f"the attribute {name} is missing")
        return self.attrs[name]

    def int(self, name: str, default: int) -> int:
        """An attribute that is an integer."""
        return int(self.attrs.get(name, default))

    def float(self, name: str, default: float) -> float:
        """An attribute that is a number."""
        return float(self.attrs.get(name, default))

    def text(self, name: str, default: str) -> str:
        """An attribute that is text."""
        return str(self.attrs.get(name, default))

    def ints(self, name: str) -> list[int] | None:  # type: ignore[valid-type]
        """An attribute of several integers; None where it is not given."""
        found = self.attrs.get(name)
        return None if found is None else [int(value) for value in found]


def attributes(proto: NodeProto) -> dict[str, Any]:
    """The attributes of a node as Python values: graphs stay protos, tensors become arrays."""
    return {item.name: attribute_value(item) for item in proto.attribute}


def attribute_value(item: AttributeProto) -> Any:
    """The value of an attribute."""
    match item.type:
        case _A.FLOAT:
            return item.f
        case _A.INT:
            return item.i
        case _A.STRING:
            return item.s.decode("utf-8", "replace")
        case _A.TENSOR:
            return item.t
        case _A.GRAPH:
            return item.g
        case _A.FLOATS:
            return list(item.floats)
        case _A.INTS:
            return list(item.ints)
        case _A.STRINGS:
            return [text.decode("utf-8", "replace") for text in item.strings]
        case _A.SPARSE_TENSOR:
            return item.sparse_tensor
        case _A.TENSORS:
            return [numpy_helper.to_array(tensor) for tensor in item.tensors]
        case _A.GRAPHS:
            return list(item.graphs)
        case _A.TYPE_PROTO:
            return item.tp
    raise OnnxImportError(f"the attribute {item.name!r} is of a kind that is not known ({item.type})")
