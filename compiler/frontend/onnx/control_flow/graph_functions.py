"""Graphs inside of operators as private functions, which are passed what they use of the scope around."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from onnx import GraphProto

from compiler.frontend.onnx.errors import NeedsValueError
from compiler.frontend.onnx.graph_builder import GraphBuilder
from compiler.frontend.onnx.importer import Importer, ImportScope, wants_of
from compiler.frontend.onnx.model_source import graphs_in
from compiler.frontend.onnx.node import Node
from compiler.frontend.onnx.values import OptionalValue, SequenceValue, TensorValue, Value, tidy
from compiler.ir.base import GlobalVar, RelaxExpr
from compiler.relax.nodes import ShapeExpr, ShapeStructInfo, StructInfo, TensorStructInfo, Var
from compiler.relax.nodes.dims import variables
from compiler.tir import nodes as n
from compiler.tir.nodes import PrimExpr
from compiler.tir.visit import substitute


def free_names(graph: GraphProto) -> set[str]:
    """The names that a graph uses of the scopes around."""
    made = {item.name for item in (*graph.input, *graph.initializer)}
    found: set[str] = set()
    for node in graph.node:
        used = {name for name in node.input if name}
        for inner in graphs_in(node):
            used |= free_names(inner)
        found |= used - made
        made.update(node.output)
    found |= {item.name for item in graph.output} - made
    return found


@dataclass(slots=True, eq=False)
class Captured:
    """The outer values that functions use: values by name, and the dimensions in their shapes."""

    values: dict[str, Value | None]
    tensors: list[TensorValue]
    symbols: list[n.Var]


def captured(
    g: GraphBuilder, scope: ImportScope, graphs: Iterable[GraphProto], more: Sequence[TensorValue]
) -> Captured:
    """Return what `graphs` use of a scope. `more` are values that the functions take in addition."""
    names = sorted(set().union(*[free_names(graph) for graph in graphs]))
    values = {name: scope.find(name) for name in names}
    tensors = [leaf for value in values.values() for leaf in leaves(value) if leaf.array is None]
    symbols: dict[n.Var, None] = {}
    for leaf in [item for value in values.values() for item in leaves(value)] + list(more):
        for size in _dims_of(g, leaf):
            symbols.update(dict.fromkeys(variables(size)))
    return Captured(values, tensors, list(symbols))


def leaves(value: Value | None) -> Iterator[TensorValue]:
    """The tensors in a value."""
    match value:
        case TensorValue():
            yield value
        case SequenceValue():
            for item in value.items:
                yield from leaves(item)
        case OptionalValue():
            yield from leaves(value.item)


def _dims_of(g: GraphBuilder, value: TensorValue) -> list[PrimExpr]:
    if value.array is not None:
        return [item for item in value.array.reshape(-1) if isinstance(item, PrimExpr)]
    return list(g.info(value).dims or ())


def _replaced(value: Value | None, leaf: Callable[[TensorValue], TensorValue]) -> Value | None:
    """A value with its tensors replaced."""
    match value:
        case TensorValue():
            return leaf(value)
        case SequenceValue():
            items = [_replaced(item, leaf) for item in value.items]
            return SequenceValue(tuple([item for item in items if item is not None]))
        case OptionalValue() if value.item is not None:
            return OptionalValue(_replaced(value.item, leaf))  # type: ignore[arg-type]
    return value


class FunctionBuilder:
    """Builds private functions that take a shape (all dimensions), what is captured, and their own values."""

    def __init__(self, importer: Importer, scope: ImportScope, held: Captured) -> None:
        self.importer, self.g, self.scope, self.held = importer, importer.g, scope, held

    def arguments(self, own: Sequence[RelaxExpr]) -> list[RelaxExpr]:
        """The arguments of a call from the scope around."""
        shape = ShapeExpr(tuple(self.held.symbols))
        return [shape, *[self.g.expr(tensor) for tensor in self.held.tensors], *own]

    def build(self, name: str, infos: Sequence[StructInfo], body: Callable[[Inside], RelaxExpr]) -> GlobalVar:
        """A function of values of `infos`, in the outer dimensions, that gives what `body` makes."""
        g = self.g
        renamed: dict[n.Var, PrimExpr] = {var: n.Var(var.name, "int64") for var in self.held.symbols}
        shape = Var("dims", ShapeStructInfo(tuple(renamed.values())))
        params: list[Var] = [shape]
        for number, tensor in enumerate(self.held.tensors):
            params.append(Var(f"c{number}", renewed(g.info(tensor), renamed)))
        own = [Var(f"x{number}", renewed(info, renamed)) for number, info in enumerate(infos)]
        inner = dict(zip(map(id, self.held.tensors), params[1:]))

        def leaf(value: TensorValue) -> TensorValue:
            if value.array is None:
                return TensorValue(value.dtype, value.elem, inner[id(value)], None, value.wants)
            array = value.array
            if array.dtype == object:
                array = array.copy()
                for index, item in enumerate(array.reshape(-1)):
                    if isinstance(item, PrimExpr):
                        array.reshape(-1)[index] = substitute(item, renamed)
                array = tidy(array, value.dtype)
            return TensorValue(value.dtype, value.elem, None, array, value.wants)

        values = {key: _replaced(value, leaf) for key, value in self.held.values.items()}
        scope = ImportScope(
            self.scope.opsets, values, None, self.scope.attributes, self.scope.depth + 1, self.scope.prefix
        )  # fmt: skip
        with g.bb.function(name, [*params, *own], private=True):
            with g.dataflow():
                made = g.bb.emit_output(body(Inside(scope, shape, params[1:], own)))
            return g.bb.emit_func_output(made)


@dataclass(slots=True, eq=False)
class Inside:
    """A function under construction: the scope of its graph, its dimensions, captured and own values."""

    scope: ImportScope
    shape: Var
    captured: Sequence[RelaxExpr]
    own: Sequence[Var]


def renewed(info: StructInfo, renamed: dict[n.Var, PrimExpr]) -> Any:
    """StructInfo of a tensor in other dimensions."""
    if not isinstance(info, TensorStructInfo) or info.dims is None:
        return info
    return TensorStructInfo([substitute(size, renamed) for size in info.dims], info.dtype)  # type: ignore[arg-type]


def of_any_shape(g: GraphBuilder, value: TensorValue) -> TensorStructInfo:
    return TensorStructInfo(dtype=value.dtype, ndim=g.rank(value))


def function_results(
    g: GraphBuilder, made: RelaxExpr, like: Sequence[TensorValue], wants: frozenset[str]
) -> list[Value | None]:
    """The fields of what a function gave, with names for dimensions that are not known."""
    found: list[Value | None] = []
    for field, value in zip(g.items(made), like):
        found.append(TensorValue(value.dtype, value.elem, g.named_shape(field), None, wants))
    return found


def as_tensors(values: Sequence[Value | None], node: Node) -> list[TensorValue]:
    for value in values:
        if not isinstance(value, TensorValue):
            raise NeedsValueError.of(f"{node.op}: a sequence that control flow makes", wants_of(node.inputs))
    return list(values)  # type: ignore[arg-type]
