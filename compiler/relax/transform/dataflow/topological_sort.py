"""The order of bindings in dataflow blocks."""

from __future__ import annotations

from collections import deque
from typing import Literal

from compiler.errors import ArgumentError
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.ir.visit import walk
from compiler.relax.nodes import Binding, DataflowBlock, MatchCast, Var
from compiler.relax.nodes.symbols import symbols_in, symbols_set_by
from compiler.relax.transform.passes import relax_pass
from compiler.tir import nodes as n

ORDERS = ("depth-first", "breadth-first")
DIRECTIONS = ("from-inputs", "from-outputs")


@relax_pass("TopologicalSort", over="block")
def topological_sort(
    block: DataflowBlock, mod: IRModule, context: PassContext, *,
    order: Literal["depth-first", "breadth-first"] = "depth-first",
    direction: Literal["from-inputs", "from-outputs"] = "from-inputs",
) -> DataflowBlock:  # fmt: skip
    """Sort bindings so that uses come soon after definitions, or equally early ones stand together.

    lv = R.exp(x)                           lv = R.exp(x)
    lv1 = R.exp(y)       depth-first, →     gv = R.negative(lv)
    gv = R.negative(lv)  from inputs        lv1 = R.exp(y)
    gv1 = R.negative(lv1)                   gv1 = R.negative(lv1)
    """
    if order not in ORDERS or direction not in DIRECTIONS:
        raise ArgumentError(
            f"TopologicalSort: {order!r}, {direction!r}", hint=f"{' or '.join(ORDERS)}; {' or '.join(DIRECTIONS)}"
        )
    bindings = list(block.bindings)
    needs = _needs(bindings)
    if direction == "from-outputs":
        bindings.reverse()
        last = len(bindings) - 1
        users: list[set[int]] = [set() for _ in bindings]
        for index, sources in enumerate(needs):
            for source in sources:
                users[last - source].add(last - index)
        needs = users
    places = _sorted(needs, order == "depth-first")
    found = [bindings[place] for place in places]
    if direction == "from-outputs":
        found.reverse()
    return block if found == list(block.bindings) else DataflowBlock(tuple(found), block.span)


def _needs(bindings: list[Binding]) -> list[set[int]]:
    """For each binding, those before it whose values or dimensions it uses."""
    makers: dict[object, int] = {}
    found: list[set[int]] = []
    for index, binding in enumerate(bindings):
        needed: set[int] = set()
        for node in walk(binding.value):
            if isinstance(node, Var | n.Var) and node in makers:
                needed.add(makers[node])
        info = binding.struct_info if isinstance(binding, MatchCast) else binding.var.struct_info_
        for symbol in symbols_in(info) if info is not None else ():
            if symbol in makers:
                needed.add(makers[symbol])
        found.append(needed)
        makers[binding.var] = index
        if isinstance(binding, MatchCast):
            for symbol in symbols_set_by(binding.struct_info):
                makers.setdefault(symbol, index)
    return found


def _sorted(needs: list[set[int]], depth_first: bool) -> list[int]:
    users: list[list[int]] = [[] for _ in needs]
    for index, sources in enumerate(needs):
        for source in sources:
            users[source].append(index)
    left = [len(sources) for sources in needs]
    ready = deque([index for index, count in enumerate(left) if not count])
    found: list[int] = []
    while ready:
        index = ready.popleft()
        found.append(index)
        freed = []
        for user in users[index]:
            left[user] -= 1
            if not left[user]:
                freed.append(user)
        if depth_first:
            ready.extendleft(reversed(freed))
        else:
            ready.extend(freed)
    return found
