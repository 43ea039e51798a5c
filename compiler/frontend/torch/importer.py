"""From a graph of ATen operators to a dataflow block of relax."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from compiler.errors import CompileError
from compiler.frontend.torch import converters as converters
from compiler.frontend.torch.conversion import Conversion
from compiler.frontend.torch.converters.scatter import select_scatter, slice_scatter
from compiler.frontend.torch.dimensions import Dimensions
from compiler.frontend.torch.dtypes import TorchConstants, dtype_name
from compiler.frontend.torch.errors import RefusedNode, unsupported
from compiler.frontend.torch.table import TABLE, Converter, functional_name, name_of
from compiler.frontend.torch.writes import Again, RenamedNodes, Update, Writes, WrittenThrough
from compiler.ir.base import RelaxExpr
from compiler.relax import op
from compiler.relax.block_builder import BlockBuilder
from compiler.relax.nodes import Constant, TensorStructInfo, Var
from compiler.relax.nodes.dims import int64

Own = Callable[[Any, "GraphImporter"], Any]
"""A converter that a user gives: of the node and the importer, whose `value` gives arguments."""

_INLINED = ("wrap_with_set_grad_enabled", "wrap_with_autocast")


def missing_nodes(module: Any, own: Mapping[str, Own] = {}) -> dict[str, list[str]]:
    """Return the operators of a graph module and its submodules without a converter, each with its nodes."""
    found: dict[str, list[str]] = {}
    for node in module.graph.nodes:
        if node.op != "call_function":
            if node.op in ("call_module", "call_method"):
                found.setdefault(f"{node.op} {node.target}", []).append(node.name)
            continue
        name = name_of(node.target)
        if name.endswith(_INLINED):
            for part in node.args:
                if getattr(part, "op", "") == "get_attr":
                    for missed, nodes in missing_nodes(getattr(module, part.target), own).items():
                        found.setdefault(missed, []).extend(nodes)
        elif functional_name(name) not in TABLE and not _own_of(name, own):
            found.setdefault(name, []).append(node.name)
    return found


def _own_of(name: str, own: Mapping[str, Own]) -> Own | None:
    """A user's converter, by the full name, or the one without "aten." as TVM has it."""
    short = name.removeprefix("aten.")
    return next((own[key] for key in (name, short, short.partition(".")[0]) if key in own), None)


def _functional(target: Any) -> Any:
    """The operator that returns what `target` writes in place, whose arguments may have other names."""
    if not hasattr(target, "_schema"):
        return target
    space, packet, overload = functional_name(str(target)).split(".")
    return getattr(getattr(getattr(torch.ops, space), packet), overload)


class GraphImporter:
    """Converts the nodes of one graph, in order."""

    def __init__(
        self,
        builder: BlockBuilder,
        dimensions: Dimensions,
        constants: TorchConstants,
        own: Mapping[str, Own] | None = None,
    ) -> None:
        self.builder = builder
        self.dimensions = dimensions
        self.constants = constants
        self.values: dict[Any, Any] = {}
        self.refused: dict[str, list[str]] = {}
        self.missing: frozenset[str] = frozenset()
        """Names of nodes that are known to have no converter, and are passed over."""
        self._own = own or {}

    def info(self, fake: Any) -> TensorStructInfo:
        """Return what is known of a tensor of torch. Raises RefusedNode for one that relax cannot hold."""
        return TensorStructInfo(self.dimensions.dims(fake.shape), dtype_name(fake.dtype))  # type: ignore[arg-type]

    def value(self, argument: Any) -> Any:
        """Return an argument of a node.
        Nodes become expressions, symbolic sizes dimensions; anything else is unchanged."""
        if hasattr(argument, "op") and hasattr(argument, "users"):
            return self.values[argument]
        if isinstance(argument, list | tuple):
            return [self.value(item) for item in argument]
        if isinstance(argument, dict):
            return {key: self.value(item) for key, item in argument.items()}
        if hasattr(argument, "node") and hasattr(argument.node, "expr"):
            return self.dimensions.dim(argument)
        return argument

    def run(self, module: Any, writes: Writes) -> Any:
        """Convert the nodes of a graph module whose inputs have values; gives what its output node holds.

        Nodes that are refused get values that nothing computes: `finish` raises for them.
        """
        for node in module.graph.nodes:
            match node.op:
                case "placeholder":
                    continue
                case "get_attr":
                    self.values[node] = self._attribute(module, node.target)
                case "call_function":
                    self.values[node] = self._converted(module, node)
                    for update in writes.get(node, ()):
                        self._update(module, node, update)
                case "output":
                    return self.value(node.args[0])
        return None

    def _update(self, module: Any, node: Any, update: Update) -> None:
        """Change what nodes stand for after `node` has written."""
        match update:
            case RenamedNodes(names):
                value = self.values[node]
            case WrittenThrough(view, names):
                value = self._written_through(view, self.values[names[0]])
            case Again(view, names):
                value = self._converted(module, view)
        for name in names:
            self.values[name] = value

    def _written_through(self, view: Any, source: Any) -> Any:
        """The tensor that `view` shows, with the view's new value in its place."""
        conversion = Conversion(self.builder, self.dimensions, view)
        try:
            given = [self.value(argument) for argument in view.args[1:]]
            return self._bound(view, with_view(conversion, source, self.values[view], given))
        except RefusedNode as why:
            self.refused.setdefault(f"a write through {view.target} ({why})", []).append(view.name)
            return source

    def finish(self, model: str) -> None:
        """Raise UnsupportedOperatorError if nodes were refused."""
        if self.refused:
            raise unsupported(self.refused, model)

    def _attribute(self, module: Any, target: str) -> Any:
        found = module
        for part in target.split("."):
            found = getattr(found, part)
        return self.constants.constant(found) if hasattr(found, "data_ptr") else found

    def _converted(self, module: Any, node: Any) -> Any:
        name = name_of(node.target)
        if node.name in self.missing:
            return self._stand_in(node.meta.get("val"))
        try:
            if name.endswith(_INLINED):
                return self._inlined(name, node)
            own = _own_of(name, self._own)
            if own is not None:
                return self._bound(node, own(node, self))
            return self._bound(node, self._call(node, functional_name(name), functional_name(name) != name))
        except RefusedNode as why:
            reason = str(why)
        except CompileError as error:
            reason = error.message
        self.refused.setdefault(f"{name} ({reason})", []).append(node.name)
        return self._stand_in(node.meta.get("val"))

    def _call(self, node: Any, name: str, in_place: bool) -> Any:
        converter = TABLE[name]
        conversion = Conversion(self.builder, self.dimensions, node)
        made = self._applied(converter, conversion, node)
        if in_place:
            before = self.info(node.meta["val"])
            made = conversion.broadcast(conversion.cast(made, before.dtype), before.dims or ())
        return made

    def _applied(self, converter: Converter, conversion: Conversion, node: Any) -> Any:
        schema = getattr(_functional(node.target), "_schema", None)
        if schema is None:
            return converter.function(conversion, *self.value(node.args))
        given = dict(zip([argument.name for argument in schema.arguments], node.args)) | dict(node.kwargs)
        wanted: dict[str, Any] = {}
        for argument in schema.arguments:
            if argument.name in converter.wanted:
                wanted[argument.name] = self.value(given.get(argument.name, argument.default_value))
        return converter.function(conversion, **wanted)

    def _bound(self, node: Any, made: Any) -> Any:
        """A result with a name of its own, where it is no plain value yet."""
        if isinstance(made, tuple | list):
            return tuple([self._bound(node, item) for item in made])
        if not isinstance(made, RelaxExpr):
            return made
        return made if isinstance(made, Var | Constant) else self.builder.emit(made, node.name)

    def _inlined(self, name: str, node: Any) -> Any:
        """A part of the graph that runs with other settings of torch, which do not matter here."""
        place = next(index for index, part in enumerate(node.args) if getattr(part, "op", "") == "get_attr")
        if name.endswith("autocast") and True in node.args[1:place]:
            raise RefusedNode("a part runs with autocast, whose casts are not in the graph")
        module = self.values[node.args[place]]
        inner = GraphImporter(self.builder, self.dimensions, self.constants, self._own)
        inputs = [each for each in module.graph.nodes if each.op == "placeholder"]
        for input_, value in zip(inputs, self.value(node.args[place + 1 :])):
            inner.values[input_] = value
        result = inner.run(module, {})
        for key, nodes in inner.refused.items():
            self.refused.setdefault(key, []).extend(nodes)
        return tuple(result) if isinstance(result, list) else result

    def _stand_in(self, fake: Any) -> Any:
        """Return a stand-in for a refused node's value, so that the rest can be checked."""
        if isinstance(fake, list | tuple):
            return tuple(map(self._stand_in, fake))
        if hasattr(fake, "dtype") and hasattr(fake, "shape"):
            try:
                return Var("refused", self.info(fake))
            except RefusedNode:
                return Var("refused", TensorStructInfo((int64(1),), "float32"))  # type: ignore[arg-type]
        return fake


def with_view(c: Conversion, source: Any, part: Any, arguments: Sequence[Any]) -> Any:
    """Return `source` with `part` written to where the view `c.node` looks.

    `arguments` are those of the view after its tensor. Refuses views that it does not know: see `writes.VIEWS`.
    """
    ndim = c.ndim(source)
    match str(c.node.target):
        case "aten.slice.Tensor":
            given = dict(zip(("dim", "start", "end", "step"), arguments))
            step = given.get("step", 1)
            return slice_scatter(c, source, part, given.get("dim", 0), given.get("start"), step)
        case "aten.select.int":
            return select_scatter(c, source, part, *arguments)
        case "aten.permute.default":
            order = [c.axis(axis, ndim) for axis in arguments[0]]
            return op.permute_dims(part, tuple(order.index(axis) for axis in range(ndim)))
        case "aten.transpose.int" | "aten.t.default":
            order = list(range(ndim))
            if ndim > 1:
                first, second = [c.axis(axis, ndim) for axis in (arguments or (0, 1))]
                order[first], order[second] = order[second], order[first]
            return op.permute_dims(part, tuple(order))
        case "aten.alias.default" | "aten.detach.default":
            return part
        case "aten.view.default" | "aten.unsqueeze.default" | "aten.squeeze.dim" | "aten.squeeze.dims":
            return c.reshaped(part, c.shape(source))
    raise RefusedNode("not known")
