"""The tensors that in-place operators of a graph change.

Their names, and those that share their memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

MAY_ALIAS = frozenset({"aten.dropout.default", "aten.feature_dropout.default", "aten.alpha_dropout.default"})
"""Operators that may return their argument itself, though their schema does not say so."""

VIEWS = frozenset({
    "aten.slice.Tensor", "aten.select.int", "aten.view.default", "aten.unsqueeze.default", "aten.squeeze.dim",
    "aten.squeeze.dims", "aten.permute.default", "aten.transpose.int", "aten.t.default", "aten.alias.default",
    "aten.detach.default",
})  # fmt: skip
"""Operators whose result always shares their argument's memory, and whose writes can be brought back to it."""


@dataclass(frozen=True, slots=True)
class RenamedNodes:
    """The nodes `names` stand for the result of the writing node."""

    names: Sequence[Any]


@dataclass(frozen=True, slots=True)
class WrittenThrough:
    """Give the nodes `names`, from which `view` was made, the view's new value."""

    view: Any
    names: Sequence[Any]


@dataclass(frozen=True, slots=True)
class Again:
    """The nodes `names` become the result that the node `view` gives now."""

    view: Any
    names: Sequence[Any]


Update = RenamedNodes | WrittenThrough | Again
Writes = dict[Any, list[Update]]
"""What to do after each node that writes, in order."""


class _Tensor:
    """One tensor, known under several nodes; those that share its memory are in the same `group`.

    `view` is the node that made it of the tensor `of`.
    """

    __slots__ = ("group", "nodes", "of", "view")

    def __init__(self, node: Any, of: _Tensor | None = None) -> None:
        self.nodes = [node]
        self.view = node if of is not None else None
        self.of = of
        self.group: list[_Tensor] = [] if of is None else of.group
        self.group.append(self)

    @property
    def is_plain_view(self) -> bool:
        """Whether it always shares the memory of the tensor that it was made of."""
        return self.view is not None and str(self.view.target) in VIEWS


def writes_of(node: Any) -> list[Any]:
    """The arguments that a node writes into."""
    schema = getattr(node.target, "_schema", None)
    if schema is None or not schema.is_mutable:
        return []
    given = dict(zip([argument.name for argument in schema.arguments], node.args)) | dict(node.kwargs)
    return [
        given[argument.name]
        for argument in schema.arguments
        if argument.alias_info is not None and argument.alias_info.is_write and argument.name in given
    ]


def plan_writes(graph: Any) -> Writes | None:
    """Return what the in-place nodes of a graph change.

    None if that is not clear: a parameter or an input is written, or tensors may or may not share memory. Torch's
    functionalisation then resolves the writes, which takes seconds for a large model.
    """
    order = {node: index for index, node in enumerate(graph.nodes)}
    if not any(node.op == "call_function" and writes_of(node) for node in graph.nodes):
        return {}
    known: dict[Any, _Tensor] = {}
    writes: Writes = {}
    for node in graph.nodes:
        if node.op != "call_function":
            known[node] = _Tensor(node)
            continue
        written = writes_of(node)
        if written:
            if len(written) != 1 or written[0] not in known or not str(node.target).split(".")[1].endswith("_"):
                return None
            tensor = known[written[0]]
            updates = _updates(node, tensor, order)
            if updates is None:
                return None
            writes[node] = updates
            tensor.nodes.append(node)
            known[node] = tensor
            continue
        source = _aliased(node)
        if source is None and not hasattr(node.target, "_schema") and node.target.__module__ != "_operator":
            return None
        known[node] = _Tensor(node, known.get(source))
    return writes


def _updates(node: Any, tensor: _Tensor, order: dict[Any, int]) -> list[Update] | None:
    """Return what changes when a node writes into a tensor; None where that cannot be told."""
    if any(each.op in ("placeholder", "get_attr") for other in tensor.group for each in other.nodes):
        return None
    found: list[Update] = [RenamedNodes(tuple(tensor.nodes))]
    seen = [other for other in tensor.group if other is not tensor and _used_after(other, order[node], order)]
    if not seen:
        return found
    chain = [tensor]
    while (above := chain[-1].of) is not None:
        if not chain[-1].is_plain_view:
            return None
        found.append(WrittenThrough(chain[-1].view, tuple(above.nodes)))
        chain.append(above)
    for other in tensor.group:  # sources come before their views
        if other in chain:
            continue
        if not other.is_plain_view:
            return None
        found.append(Again(other.view, tuple(other.nodes)))
    return found


def _used_after(tensor: _Tensor, place: int, order: dict[Any, int]) -> bool:
    return any(order[user] > place for node in tensor.nodes for user in node.users)


def _aliased(node: Any) -> Any:
    """The argument whose memory the result may share; None for fresh results."""
    schema = getattr(node.target, "_schema", None)
    first = node.args[0] if node.args else None
    if schema is None:
        return first if getattr(node.target, "__name__", "") == "getitem" else None
    shares = any(result.alias_info is not None for result in schema.returns)
    return first if shares or str(node.target) in MAY_ALIAS else None
