"""Functions that call themselves, or each other."""

from __future__ import annotations

from compiler.ir.base import GlobalVar
from compiler.ir.module import IRModule
from compiler.relax.analysis.variables import all_global_vars
from compiler.relax.nodes import Function


def detect_recursion(mod: IRModule) -> list[list[GlobalVar]]:
    """The groups of functions that may call each other, directly or not, ordered by name.

    A function that mentions itself is a group of its own.
    """
    calls = {
        gvar: [other for other in all_global_vars(func) if other in mod]
        for gvar, func in mod.functions_items()
        if isinstance(func, Function)
    }
    groups = [sorted(group, key=str) for group in _components(calls)]
    return sorted((g for g in groups if len(g) > 1 or g[0] in calls[g[0]]), key=lambda group: str(group[0]))


def _components(calls: dict[GlobalVar, list[GlobalVar]]) -> list[list[GlobalVar]]:
    """The strongly connected components (Tarjan), without recursion."""
    number: dict[GlobalVar, int] = {}
    low: dict[GlobalVar, int] = {}
    held: list[GlobalVar] = []
    on_stack: set[GlobalVar] = set()
    found: list[list[GlobalVar]] = []
    for root in calls:
        if root in number:
            continue
        work = [(root, iter(calls[root]))]
        number[root] = low[root] = len(number)
        held.append(root)
        on_stack.add(root)
        while work:
            current, rest = work[-1]
            following = next((f for f in rest if f in calls and (f not in number or f in on_stack)), None)
            if following is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[current])
                if low[current] == number[current]:
                    cut = held.index(current)
                    found.append(held[cut:])
                    on_stack.difference_update(held[cut:])
                    del held[cut:]
            elif following in number:
                low[current] = min(low[current], number[following])
            else:
                number[following] = low[following] = len(number)
                held.append(following)
                on_stack.add(following)
                work.append((following, iter(calls[following])))
    return found
