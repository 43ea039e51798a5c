"""Which in-place operators of a graph only rename values, and which need torch to take aliases apart."""

from __future__ import annotations

from typing import Any

MAY_ALIAS = frozenset({"aten.dropout.default", "aten.feature_dropout.default", "aten.alpha_dropout.default"})
"""Operators that may return their argument itself, though their schema does not say so."""

Renames = dict[Any, list[Any]]
"""For each node that writes: the nodes before it that are the same tensor."""


class _Tensor:
    """One tensor, known under several nodes; those that share its memory are in the same `group`."""

    __slots__ = ("group", "nodes")

    def __init__(self, group: list[_Tensor], node: Any) -> None:
        self.group = group
        self.nodes = [node]
        group.append(self)


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


def plan_renames(graph: Any) -> Renames | None:
    """What the in-place nodes of a graph rename.

    None where a write may be seen through another tensor (a view of what is written, a parameter, an input): torch's
    functionalisation has to resolve those.
    """
    order = {node: index for index, node in enumerate(graph.nodes)}
    if not any(node.op == "call_function" and writes_of(node) for node in graph.nodes):
        return {}
    known: dict[Any, _Tensor] = {}
    renames: Renames = {}
    for node in graph.nodes:
        if node.op != "call_function":
            known[node] = _Tensor([], node)
            continue
        written = writes_of(node)
        if written:
            tensor = _only_renamed(node, written, known, order)
            if tensor is None:
                return None
            renames[node] = list(tensor.nodes)
            tensor.nodes.append(node)
            known[node] = tensor
            continue
        source = _aliased(node)
        if source is None and not hasattr(node.target, "_schema") and node.target.__module__ != "_operator":
            return None
        known[node] = _Tensor(known[source].group if source in known else [], node)
    return renames


def _only_renamed(node: Any, written: list[Any], known: dict[Any, _Tensor], order: dict[Any, int]) -> _Tensor | None:
    """The tensor that a node writes into, if nothing else that shares its memory is looked at afterwards."""
    if len(written) != 1 or written[0] not in known or not str(node.target).split(".")[1].endswith("_"):
        return None
    tensor = known[written[0]]
    for other in tensor.group:
        if any(each.op in ("placeholder", "get_attr") for each in other.nodes):
            return None
        if other is not tensor and any(order[user] > order[node] for each in other.nodes for user in each.users):
            return None
    return tensor


def _aliased(node: Any) -> Any:
    """The argument whose memory the result may share; None for fresh results."""
    schema = getattr(node.target, "_schema", None)
    first = node.args[0] if node.args else None
    if schema is None:
        return first if getattr(node.target, "__name__", "") == "getitem" else None
    shares = any(result.alias_info is not None for result in schema.returns)
    return first if shares or str(node.target) in MAY_ALIAS else None
