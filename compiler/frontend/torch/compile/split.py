"""Which parts of a graph become machine code, and which stay with torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from compiler.frontend.torch.dtypes import NAMES

PREFIX = "tunefarm"
FEWEST = 2
"""A part with fewer operators that compute something is not worth a call."""

_VIEWS = frozenset({
    "aten.alias", "aten.detach", "aten.expand", "aten.permute", "aten.reshape", "aten.select", "aten.slice",
    "aten.squeeze", "aten.t", "aten.transpose", "aten.unsqueeze", "aten.view", "aten._unsafe_view", "_operator.getitem",
})  # fmt: skip


class _Covered(OperatorSupportBase):  # type: ignore[misc]
    """The operators that have a converter, over tensors of the host that a kernel can hold."""

    def __init__(self, refused: frozenset[str]) -> None:
        self._refused = refused

    def is_node_supported(self, submodules: Mapping[str, Any], node: Any) -> bool:
        if node.op != "call_function" or node.name in self._refused or is_number(node.meta.get("val")):
            return False
        return all(_held(each.meta.get("val")) for each in (node, *node.all_input_nodes))


def _held(value: Any) -> bool:
    """Whether kernels can be given a value: tensors of types that they have, and numbers."""
    if isinstance(value, list | tuple):
        return all(map(_held, value))
    return not hasattr(value, "dtype") or value.dtype in NAMES


def is_number(value: Any) -> bool:
    """Whether torch computes the node on the host, as it does for sizes."""
    return isinstance(value, bool | int | float) or (hasattr(value, "node") and not hasattr(value, "shape"))


def computes(node: Any) -> bool:
    """Whether an operator computes something; views do not."""
    return node.op == "call_function" and str(node.target).rpartition(".")[0] not in _VIEWS


def split(graph_module: Any, refused: Sequence[str], compiled: Callable[[Any], Any]) -> tuple[Any, int]:
    """Replace each supported part of a graph by `compiled(part)`.

    Return the graph and the number of parts.

    `refused` are names of nodes that stay. A part is a graph module, whose inputs and results hold what torch knows of
    them. `compiled` returns a function of the inputs, or None to leave the part as it is.
    """
    support = _Covered(frozenset(refused))
    partitioner = CapabilityBasedPartitioner(graph_module, support, allows_single_node_partition=True)
    chosen = [part for part in partitioner.propose_partitions() if sum(map(computes, part.nodes)) >= FEWEST]
    fused = partitioner.fuse_partitions(chosen, prefix=PREFIX)
    count = 0
    for node in fused.graph.nodes:
        if node.op != "call_module" or not str(node.target).startswith(PREFIX):
            continue
        call = compiled(getattr(fused, node.target))
        if call is None:
            continue
        count += 1
        delattr(fused, node.target)
        setattr(fused, node.target, call)
    fused.recompile()
    return fused, count
