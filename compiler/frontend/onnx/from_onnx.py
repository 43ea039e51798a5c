"""`from_onnx`: a model as a module of graphs."""

from __future__ import annotations

import keyword
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import ModelProto, TypeProto, ValueInfoProto

from compiler.errors import TunefarmError
from compiler.frontend.onnx import converters as _converters  # noqa: F401  # fills the table
from compiler.frontend.onnx.control_flow import CONTROL
from compiler.frontend.onnx.element_types import dtype_of, elem_of, stored
from compiler.frontend.onnx.errors import NeedsValueError, OnnxImportError, UnsupportedOperatorsError
from compiler.frontend.onnx.graph_builder import ControlFlowFound, GraphBuilder
from compiler.frontend.onnx.importer import Importer, ImportScope, domain_of
from compiler.frontend.onnx.model_source import TensorSource, read_model
from compiler.frontend.onnx.values import OptionalValue, SequenceValue, TensorValue, Value
from compiler.ir.base import RelaxExpr
from compiler.ir.module import IRModule
from compiler.relax.nodes import TensorStructInfo, Tuple, Var
from compiler.runtime.core.ndarray import NDArray, array
from compiler.tir import nodes as n
from compiler.tir import ops

Shapes = Mapping[str, Sequence[Any]]
NEWEST_OPSET = 28


@dataclass(frozen=True, slots=True)
class ImportedOutput:
    """An output of the model: a name, and its ONNX element type where it is a tensor."""

    name: str
    elem: int
    items: tuple[ImportedOutput, ...] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ImportedModel:
    """A module, and how its "main" relates to the model's names.

    `inputs` are the model's inputs in the order of main's parameters; `outputs` say how main's result is to be read.
    """

    module: IRModule
    inputs: tuple[str, ...]
    outputs: tuple[ImportedOutput, ...]


def from_onnx(
    model: ModelProto | str | os.PathLike[str] | bytes, shape_dict: Shapes | None = None,
    dtype_dict: str | Mapping[str, str] | None = None, opset: int | None = None, keep_params_in_input: bool = False,
    sanitize_input_names: bool = True,
) -> IRModule:  # fmt: skip
    """Convert an ONNX model to a module whose function "main" computes it.

    model: a ModelProto, or the path of a file, beside which its external data may lie.
    shape_dict: shapes of inputs, of integers, names or tir variables; others are as the model declares them. A named
    dimension is one variable wherever it stands.
    dtype_dict: element types of inputs, one for all or by name.
    opset: read the model as of this opset of the default domain.
    keep_params_in_input: the model's weights become parameters of "main", their values its attribute "params"
    (`detach_params` takes them off); otherwise they are constants.
    sanitize_input_names: names of inputs that are no Python names are changed to such.

    Raises UnsupportedOperatorsError with all nodes that cannot be converted, and NeedsValueError where a value that
    only an input has decides the graph. Raises OnnxFileError for a broken or hostile file, OnnxImportError for the
    rest.
    """
    return import_model(
        model, shape_dict, dtype_dict, opset,
        keep_params_in_input=keep_params_in_input, sanitize_input_names=sanitize_input_names,
    ).module  # fmt: skip


def import_model(
    model: ModelProto | str | os.PathLike[str] | bytes, shape_dict: Shapes | None = None,
    dtype_dict: str | Mapping[str, str] | None = None, opset: int | None = None, *,
    values: Mapping[str, Any] | None = None, keep_params_in_input: bool = False, sanitize_input_names: bool = True,
) -> ImportedModel:  # fmt: skip
    """Convert as `from_onnx` does; return also what tells how to call the module.

    `values` are inputs whose values are fixed: arrays, None, or lists of arrays for sequences.
    """
    proto, source = read_model(model)
    try:
        return _imported(
            proto, source, shape_dict or {}, dtype_dict, opset, values or {}, keep_params_in_input,
            sanitize_input_names,
        )  # fmt: skip
    except (ValueError, TypeError, IndexError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        if isinstance(error, TunefarmError):
            raise
        # A file may hold anything: what no check foresaw is an error of the file still.
        raise OnnxImportError(f"the model is broken: {error}") from error


def _imported(
    proto: ModelProto, source: TensorSource, shapes: Shapes, dtypes: str | Mapping[str, str] | None, opset: int | None,
    values: Mapping[str, Any], keep: bool, sanitize: bool,
) -> ImportedModel:  # fmt: skip
    opsets = {domain_of(item.domain): item.version for item in proto.opset_import}
    if opset is not None:
        opsets[""] = int(opset)
    opsets.setdefault("", 1)
    if opsets[""] > NEWEST_OPSET:
        raise OnnxImportError(
            f"the model is of opset {opsets['']}; the newest that is known is {NEWEST_OPSET}",
            hint="onnx.version_converter converts models to an older opset",
        )
    importer = Importer(GraphBuilder(), source, CONTROL, proto.functions)
    missing = list(importer.unsupported(proto.graph.node, opsets))
    if missing:
        raise UnsupportedOperatorsError.of(missing)

    def build(control_flow: bool) -> ImportedModel:
        builder = importer.g = GraphBuilder()
        builder.has_control_flow = control_flow
        inputs = _Inputs(builder, source, proto, dict(shapes), dtypes, sanitize)
        inputs.declare(values, keep)
        scope = ImportScope(opsets, inputs.values)
        with builder.bb.function("main", inputs.params, attrs=inputs.attributes()):
            with builder.dataflow():
                results = importer.graph(proto.graph, scope)
                named = [(item.name, value) for item, value in zip(proto.graph.output, results)]
                whole = [_whole(builder, value, name) for name, value in named]
                made = builder.bb.emit_output(whole[0] if len(whole) == 1 else Tuple(tuple(whole)))
            builder.bb.emit_func_output(made)
        outputs = tuple([_described(name, value) for name, value in named])
        return ImportedModel(builder.bb.get(), tuple(inputs.names), outputs)

    try:
        return build(control_flow=any(node.op_type in CONTROL for node in proto.graph.node))
    except ControlFlowFound:  # inside of a function
        return build(control_flow=True)


def _described(name: str, value: Value | None) -> ImportedOutput:
    match value:
        case TensorValue():
            return ImportedOutput(name, value.elem)
        case SequenceValue():
            return ImportedOutput(name, 0, tuple([_described(name, item) for item in value.items]))
        case OptionalValue(item=None) | None:
            return ImportedOutput(name, -1)
        case OptionalValue():
            return _described(name, value.item)


def _whole(g: GraphBuilder, value: Value | None, name: str) -> RelaxExpr:
    """An output as one expression."""
    match value:
        case TensorValue():
            return g.expr(value)
        case SequenceValue():
            return Tuple(tuple([_whole(g, item, name) for item in value.items]))
        case OptionalValue() if value.item is not None:
            return _whole(g, value.item, name)
    return Tuple(())


class _Inputs:
    """The inputs of a model: parameters of "main", and the values of their names."""

    def __init__(
        self, builder: GraphBuilder, source: TensorSource, proto: ModelProto, shapes: dict[str, Sequence[Any]],
        dtypes: str | Mapping[str, str] | None, sanitize: bool,
    ) -> None:  # fmt: skip
        self.g, self._source, self._proto = builder, source, proto
        self._shapes, self._dtypes, self._sanitize = shapes, dtypes, sanitize
        self._dims: dict[str, n.Var] = {}
        self._taken: set[str] = set()
        self.params: list[Var] = []
        self.names: list[str] = []
        self.values: dict[str, Value | None] = {}
        self._weights: list[NDArray] = []
        self._keep = False

    def declare(self, fixed: Mapping[str, Any], keep: bool) -> None:
        """Make parameters of the inputs that are neither weights nor fixed; weights too, if they are kept."""
        graph, self._keep = self._proto.graph, keep
        weights = {tensor.name for tensor in graph.initializer}
        known = {item.name for item in graph.input}
        unknown = [name for name in self._shapes if name not in known]
        if unknown:
            raise OnnxImportError(
                f"shape_dict names {', '.join(map(repr, unknown))}, which the model has no input of",
                hint=f"its inputs: {', '.join(sorted(known - weights))}",
            )
        for item in graph.input:
            if item.name in weights:
                continue
            if item.name in fixed:
                self.values[item.name] = self._fixed(item.type, fixed[item.name], item.name)
            else:
                self.values[item.name] = self._input(item)
        if keep:
            for tensor in graph.initializer:
                data = self._source.array(tensor)
                value = self.g.known(data, tensor.data_type)
                value.expr = Var(self._name(tensor.name), TensorStructInfo(data.shape, value.dtype))  # type: ignore[arg-type]
                self.params.append(value.expr)
                self._weights.append(array(np.ascontiguousarray(data)))
                self.values[tensor.name] = value

    def attributes(self) -> dict[str, Any]:
        """The attributes of "main"."""
        return {"num_input": len(self.names), **({"params": tuple(self._weights)} if self._keep else {})}

    def _fixed(self, type_: TypeProto, value: Any, name: str) -> Value:
        if type_.HasField("optional_type"):
            if value is None:
                return OptionalValue(None)
            inner = self._fixed(type_.optional_type.elem_type, value, name)
            assert not isinstance(inner, OptionalValue)
            return OptionalValue(inner)
        if type_.HasField("sequence_type"):
            elem = type_.sequence_type.elem_type
            return SequenceValue(tuple([self._fixed(elem, item, name) for item in value]))
        return self.g.known(stored(np.asarray(value), type_.tensor_type.elem_type), type_.tensor_type.elem_type)

    def _input(self, item: ValueInfoProto) -> Value:
        kind = item.type.WhichOneof("value")
        if kind != "tensor_type":
            if kind in ("sequence_type", "optional_type"):
                raise NeedsValueError.of(f"the {str(kind).partition('_')[0]} {item.name!r}", [item.name])
            raise OnnxImportError(f"the input {item.name!r} is a {kind}, no tensor")
        tensor = item.type.tensor_type
        elem = tensor.elem_type
        dtype = dtype_of(elem, f"the input {item.name!r}")
        asked = self._dtypes if isinstance(self._dtypes, str) else (self._dtypes or {}).get(item.name)
        if asked is not None:
            dtype, elem = str(asked), elem_of(str(asked))
        if item.name in self._shapes:
            dims = [self._dim(size) for size in self._shapes[item.name]]
        elif tensor.HasField("shape"):
            dims = [
                self._dim(size.dim_value if size.HasField("dim_value") else size.dim_param or None)
                for size in tensor.shape.dim
            ]
        else:
            raise OnnxImportError(
                f"the model does not say how many dimensions the input {item.name!r} has",
                hint=f'give them: shape_dict={{"{item.name}": [...]}}',
            )
        param = Var(self._name(item.name), TensorStructInfo(dims, dtype))  # type: ignore[arg-type]
        self.params.append(param)
        self.names.append(item.name)
        return TensorValue(dtype, elem, param, None, frozenset({item.name}))

    def _dim(self, size: Any) -> Any:
        """A dimension: an integer, a variable, or a name, which is one variable everywhere."""
        if size is None or (isinstance(size, int) and size < 0):
            return self.g.new_symbols(1)[0]
        if isinstance(size, str):
            if size not in self._dims:
                self._dims[size] = n.Var(_python_name(size) or "dim", "int64")
            return self._dims[size]
        return ops.as_expr(size) if isinstance(size, n.PrimExpr) else int(size)

    def _name(self, name: str) -> str:
        """A parameter's name, which no other has."""
        made = (_python_name(name) or "input") if self._sanitize else name
        found, number = made, 1
        while found in self._taken:
            found, number = f"{made}_{number}", number + 1
        self._taken.add(found)
        return found


def _python_name(name: str) -> str:
    """`name` with what no Python name has replaced."""
    made = re.sub(r"\W", "_", name)
    if made[:1].isdigit():
        made = f"input_{made}"
    return f"{made}_" if keyword.iskeyword(made) else made


__all__ = ["ImportedModel", "ImportedOutput", "from_onnx", "import_model"]
