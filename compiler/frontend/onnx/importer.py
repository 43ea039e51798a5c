"""The walk over a model's graphs: names become values, and converters turn nodes into results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto, TensorProto

from compiler.errors import TunefarmError
from compiler.frontend.onnx import functions
from compiler.frontend.onnx.errors import NeedsValueError, OnnxImportError, UnsupportedNode
from compiler.frontend.onnx.folding import folded
from compiler.frontend.onnx.graph_builder import GraphBuilder
from compiler.frontend.onnx.model_source import TensorSource
from compiler.frontend.onnx.node import Node, attributes
from compiler.frontend.onnx.registry import INTEGER_RULES, REFUSED, find
from compiler.frontend.onnx.values import OptionalValue, SequenceValue, TensorValue, Value
from compiler.ir.base import RelaxExpr
from compiler.relax.nodes import Tuple, TupleStructInfo, info_of

Control: TypeAlias = "Callable[[Importer, Node, ImportScope], Any]"
"""A converter of a node that holds graphs."""
MAX_DEPTH = 64
"""How deep graphs and functions may lie inside of each other."""
MAX_EXPANDED = 200_000
"""Nodes that functions and loops may make: a small file could say any number."""


def domain_of(name: str) -> str:
    """A domain's name; the default one is empty."""
    return "" if name == "ai.onnx" else name


@dataclass(frozen=True, slots=True, eq=False)
class ImportScope:
    """Names and their context: opsets, the attributes of a function, the outer scope."""

    opsets: Mapping[str, int]
    values: dict[str, Value | None] = field(default_factory=dict)
    outer: ImportScope | None = None
    attributes: Mapping[str, AttributeProto] | None = None
    depth: int = 0
    prefix: str = ""

    def inner(self) -> ImportScope:
        """A scope inside of this one, which sees its names."""
        return ImportScope(self.opsets, {}, self, self.attributes, self.depth + 1, self.prefix)

    def find(self, name: str) -> Value | None:
        """The value of a name. Raises OnnxImportError where nothing has it."""
        scope: ImportScope | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            scope = scope.outer
        raise OnnxImportError(
            f"the value {name!r} is used before anything makes it", hint="onnx.checker.check_model says where"
        )


class Importer:
    """Converts the nodes of a model.

    `source` reads its tensors, `controls` are converters of what holds graphs, `model_functions` the model's own.
    """

    def __init__(
        self,
        builder: GraphBuilder,
        source: TensorSource,
        controls: Mapping[str, Control],
        model_functions: Iterable[FunctionProto] = (),
    ) -> None:
        self.g = builder
        self.source = source
        self.controls = controls
        self.functions = {(domain_of(item.domain), item.name): item for item in model_functions}
        self._expanded = 0
        self._seen: set[tuple[str, str, frozenset[tuple[str, int]]]] = set()

    # -------------------------------------------------------------------- before anything is built

    def unsupported(
        self, nodes: Iterable[NodeProto], opsets: Mapping[str, int], depth: int = 0
    ) -> Iterator[UnsupportedNode]:
        """The nodes, of graphs inside of nodes too, whose operators nothing converts."""
        if depth > MAX_DEPTH:
            raise OnnxImportError(f"graphs lie more than {MAX_DEPTH} deep inside of each other")
        for node in nodes:
            domain = domain_of(node.domain)
            opset = opsets.get(domain, 1 if domain else 0)
            name = node.name or (node.output[0] if node.output else node.op_type)
            function = self.functions.get((domain, node.op_type))
            if function is not None:
                own = {domain_of(item.domain): item.version for item in function.opset_import}
                called = (domain, node.op_type, frozenset((own or opsets).items()))
                if called not in self._seen:  # functions that call others twice make twice as many nodes at each level
                    self._seen.add(called)
                    yield from self.unsupported(function.node, own or opsets, depth + 1)
            elif find(domain, node.op_type, opset) is None and (domain or node.op_type not in self.controls):
                refused = REFUSED.get((domain, node.op_type))
                if refused is not None or not functions.is_defined(domain, node.op_type, opset):
                    yield UnsupportedNode(node.op_type, domain, opset, name, refused.reason if refused else "")
            for item in node.attribute:
                for graph in (item.g, *item.graphs) if item.type in (
                    AttributeProto.GRAPH, AttributeProto.GRAPHS
                ) else ():  # fmt: skip
                    yield from self.unsupported(graph.node, opsets, depth + 1)

    # ----------------------------------------------------------------------------------- graphs

    def graph(self, graph: GraphProto, scope: ImportScope) -> list[Value | None]:
        """The values of a graph's outputs; its inputs have values in `scope` already."""
        for tensor in graph.initializer:
            if tensor.name not in scope.values:
                scope.values[tensor.name] = self.initializer(tensor)
        declared = {item.name: item.type for item in (*graph.value_info, *graph.output)}
        self.nodes(graph.node, scope, declared)
        return [scope.find(item.name) for item in graph.output]

    def initializer(self, tensor: TensorProto) -> TensorValue:
        """The value of a tensor of the model."""
        return self.g.known(self.source.array(tensor), tensor.data_type)

    def nodes(self, nodes: Iterable[NodeProto], scope: ImportScope, declared: Mapping[str, Any]) -> None:
        """Convert nodes in order; their outputs get values in `scope`."""
        if scope.depth > MAX_DEPTH:
            raise OnnxImportError(f"graphs or functions lie more than {MAX_DEPTH} deep inside of each other")
        for proto in nodes:
            self._expanded += scope.depth > 0
            if self._expanded > MAX_EXPANDED:
                raise OnnxImportError(f"functions and loops of the model make more than {MAX_EXPANDED:,} nodes")
            node = self._node(proto, scope, declared)
            for name, value in zip(node.outputs, self.results(node, scope)):
                if name:
                    scope.values[name] = value

    def _node(self, proto: NodeProto, scope: ImportScope, declared: Mapping[str, Any]) -> Node:
        if scope.attributes is not None:
            proto = _with_attributes(proto, scope.attributes)
        domain = domain_of(proto.domain)
        inputs = [scope.find(name) if name else None for name in proto.input]
        while inputs and inputs[-1] is None:
            inputs.pop()
        name = scope.prefix + (proto.name or (proto.output[0] if proto.output else proto.op_type))
        opset = scope.opsets.get(domain, 1)
        return Node(proto, proto.op_type, domain, opset, name, attributes(proto), inputs, proto.output, declared)

    def results(self, node: Node, scope: ImportScope) -> list[Value | None]:
        """The values of a node's outputs."""
        try:
            known = folded(node)
            return self._converted(node, scope) if known is None else list(known)
        except NeedsValueError as error:
            if error.detail.get("node") is None:
                error.message = f"{node.op} at node {node.name!r}: {error.message}"
                error.detail["node"] = node.name
            raise
        except OnnxImportError:
            raise
        except (TunefarmError, ValueError, TypeError, IndexError, KeyError) as error:
            raise OnnxImportError(f"{node.op} at node {node.name!r}: {error}") from error

    def _converted(self, node: Node, scope: ImportScope) -> list[Value | None]:
        function = self.functions.get((node.domain, node.op))
        if function is not None:
            return self.expanded(functions.of_model(function, node), node, scope)
        control = self.controls.get(node.op) if node.domain == "" else None
        if control is not None:
            return self._wrapped(control(self, node, scope), node)
        rule = find(node.domain, node.op, node.opset)
        if rule is None:
            expansion = functions.of_onnx(node)
            if expansion is None:
                raise OnnxImportError(f"{node.op} at node {node.name!r} (opset {node.opset}) has no definition")
            return self.expanded(expansion, node, scope)
        held = INTEGER_RULES.get(node.op) if node.domain == "" else None
        if held is not None and any(isinstance(v, TensorValue) and v.integers is not None for v in node.inputs):
            made = held(self.g, node)
            if made is not None:
                return self._wrapped(made, node)
        return self._wrapped(rule(self.g, node), node)

    def expanded(self, body: functions.Expansion, node: Node, scope: ImportScope) -> list[Value | None]:
        """The values of the nodes that stand for a node."""
        inner = ImportScope(
            {**scope.opsets, **body.opsets}, {}, None, body.attributes, scope.depth + 1, f"{node.name}/"
        )  # fmt: skip
        for index, name in enumerate(body.inputs):
            inner.values[name] = node.inputs[index] if index < len(node.inputs) else None
        self.nodes(body.nodes, inner, {})
        return [
            inner.find(name) if wanted else None for name, wanted in zip(body.outputs, node.outputs)
        ]  # fmt: skip

    def _wrapped(self, made: Any, node: Node) -> list[Value | None]:
        """Return what a converter gave, as values."""
        if isinstance(made, RelaxExpr):
            if not isinstance(made, Tuple):
                info = info_of(made)
                if info is None or isinstance(info, TupleStructInfo):
                    made = self.g.emit(made)
            items: Sequence[Any] = (
                self.g.items(made) if isinstance(info_of(made), TupleStructInfo) else [made]
            )  # fmt: skip
        elif isinstance(made, TensorValue | SequenceValue | OptionalValue):
            items = [made]
        else:
            items = list(made)
        wants = wants_of(node.inputs)
        found: list[Value | None] = []
        for item in items:
            value = self.g.value(item) if isinstance(item, RelaxExpr) else item
            if isinstance(value, TensorValue) and value.array is None:
                value = replace(value, wants=value.wants | wants)
            found.append(value)
        return found


def wants_of(values: Iterable[Value | None]) -> frozenset[str]:
    """Return the inputs whose values would make these values known."""
    found: frozenset[str] = frozenset()
    for value in values:
        match value:
            case TensorValue():
                found |= value.wants
            case SequenceValue():
                found |= value.wants | wants_of(value.items)
            case OptionalValue():
                found |= wants_of([value.item])
    return found


def _with_attributes(proto: NodeProto, known: Mapping[str, AttributeProto]) -> NodeProto:
    """Return a function's node with the call's attributes in place of references, in its graphs too."""
    if not any(item.ref_attr_name or item.type == AttributeProto.GRAPH for item in proto.attribute):
        return proto
    made = NodeProto()
    made.CopyFrom(proto)
    del made.attribute[:]
    for item in proto.attribute:
        if item.ref_attr_name:
            if item.ref_attr_name in known:
                copy = made.attribute.add()
                copy.CopyFrom(known[item.ref_attr_name])
                copy.name = item.name
            continue
        copy = made.attribute.add()
        copy.CopyFrom(item)
        if item.type == AttributeProto.GRAPH:
            nodes = [_with_attributes(node, known) for node in item.g.node]
            del copy.g.node[:]
            copy.g.node.extend(nodes)
    return made
