"""Turn one graph of ATen operators without control flow into a module with the function "main"."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from compiler.frontend.torch.dimensions import Dimensions
from compiler.frontend.torch.dtypes import TorchConstants
from compiler.frontend.torch.errors import RefusedNode
from compiler.frontend.torch.importer import GraphImporter, missing_nodes
from compiler.ir.base import RelaxExpr
from compiler.ir.module import IRModule
from compiler.relax.block_builder import BlockBuilder
from compiler.relax.nodes import PrimStructInfo, PrimValue, Tuple, Var
from compiler.tir.nodes import PrimExpr


@dataclass(frozen=True)
class Region:
    """A graph that was imported.

    results: what torch knows of each result, None for one that is nothing. made: for each result the place in what
    "main" returns, -1 for a number that the caller computes and for nothing.
    """

    module: IRModule
    inputs: tuple[Any, ...]
    results: tuple[Any, ...]
    made: tuple[int, ...]


class _Import:
    """An import on its way."""

    def __init__(self, graph_module: Any) -> None:
        self.graph_module = graph_module
        self.builder = BlockBuilder()
        self.importer = GraphImporter(self.builder, Dimensions(), TorchConstants())
        self.placeholders = [node for node in graph_module.graph.nodes if node.op == "placeholder"]
        self.inputs = tuple([node.meta.get("val") for node in self.placeholders])

    def region(self) -> Region:
        """The graph as a module. Raises UnsupportedOperatorError, RefusedNode."""
        self.importer.dimensions.solve([value.shape for value in self.inputs if hasattr(value, "shape")])
        params = [self._parameter(node, value) for node, value in zip(self.placeholders, self.inputs)]
        with self.builder.function("main", [param for param in params if param is not None]):
            with self.builder.dataflow():
                returned = self.importer.run(self.graph_module, {})
                self.importer.finish("the graph")
                region_results, made, values = self._results(returned)
                output: Any = self.builder.emit_output(Tuple(tuple(values)))
            self.builder.emit_func_output(output)
        return Region(self.builder.get(), self.inputs, region_results, made)

    def refused(self) -> dict[str, list[str]]:
        """Group nodes that cannot be converted by the reason.
        Raises RefusedNode for an input that relax cannot hold."""
        self.importer.dimensions.solve([value.shape for value in self.inputs if hasattr(value, "shape")])
        params = [self._parameter(node, value) for node, value in zip(self.placeholders, self.inputs)]
        with self.builder.function("main", params):
            with self.builder.dataflow():
                self.importer.run(self.graph_module, {})
                output: Any = self.builder.emit_output(Tuple(()))
            self.builder.emit_func_output(output)
        return self.importer.refused

    def _parameter(self, node: Any, value: Any) -> Var:
        if hasattr(value, "dtype") and hasattr(value, "shape"):
            var = Var(node.name, self.importer.info(value))
            self.importer.values[node] = var
            return var
        if isinstance(value, int) or hasattr(value, "node"):
            size = self.importer.dimensions.dim(value)
            self.importer.values[node] = size
            return Var(node.name, PrimStructInfo(value=size))
        raise RefusedNode(f"an input is a {type(value).__name__}")

    def _results(self, returned: Any) -> tuple[tuple[Any, ...], tuple[int, ...], list[RelaxExpr]]:
        output = next(node for node in self.graph_module.graph.nodes if node.op == "output")
        nodes = output.args[0] if isinstance(output.args[0], list | tuple) else (output.args[0],)
        given = returned if isinstance(returned, list | tuple) else (returned,)
        known: list[Any] = []
        made: list[int] = []
        values: list[RelaxExpr] = []
        for node, value in zip(nodes, given):
            meta = node.meta.get("val") if hasattr(node, "meta") else node
            known.append(meta)
            if value is None or isinstance(value, bool | int | float | PrimExpr | PrimValue):
                made.append(-1)
                continue
            made.append(len(values))
            values.append(value)
        return tuple(known), tuple(made), values


def import_region(graph_module: Any) -> Region:
    """Import a graph whose operators all have converters. Raises UnsupportedOperatorError and RefusedNode."""
    return _Import(graph_module).region()


def refused_nodes(graph_module: Any) -> dict[str, list[str]]:
    """Return the operators of a graph (some with a reason) that must stay with torch, each with its nodes.

    Raises RefusedNode where the graph takes what cannot be passed to a kernel.
    """
    missing = missing_nodes(graph_module)
    work = _Import(graph_module)
    work.importer.missing = frozenset(name for names in missing.values() for name in names)
    return {**missing, **work.refused()}
