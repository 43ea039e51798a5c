"""Group bindings of a block so that each group can be computed at one place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from compiler.ir.base import Node
from compiler.ir.visit import walk
from compiler.relax.nodes import Binding, MatchCast, Var
from compiler.relax.nodes.symbols import symbols_in, symbols_set_by
from compiler.tir import nodes as n


class Contraction:
    """The bindings of a block as a graph. Nodes are joined as long as uses form no cycle."""

    def __init__(self, bindings: Sequence[Binding]) -> None:
        numbers = {binding.var: number for number, binding in enumerate(bindings)}
        self._group = list(range(len(bindings)))
        self._members = [[number] for number in range(len(bindings))]
        self._users: list[set[int]] = [set() for _ in bindings]
        for number, binding in enumerate(bindings):
            for node in walk(binding.value):
                if isinstance(node, Var) and node in numbers:
                    self._users[numbers[node]].add(number)

    def group(self, number: int) -> int:
        """Return the group of a binding. Bindings of one group have equal answers."""
        return self._group[number]

    def members(self, number: int) -> list[int]:
        """The bindings of a binding's group, in order."""
        return self._members[self._group[number]]

    def join(self, numbers: Iterable[int]) -> bool:
        """Join the groups of these bindings.
        If that would make a cycle of uses, do nothing and return False."""
        groups = {self._group[number] for number in numbers}
        inside = sorted({number for group in groups for number in self._members[group]})
        if self._comes_back(groups, inside):
            return False
        first = min(groups)
        for number in inside:
            self._group[number] = first
        self._members[first] = inside
        return True

    def _comes_back(self, groups: set[int], inside: Sequence[int]) -> bool:
        """Whether users of these groups, outside of them, are used by them in turn."""
        seen: set[int] = set()
        pending = [self._group[user] for number in inside for user in self._users[number]]
        pending = [group for group in pending if group not in groups]
        while pending:
            group = pending.pop()
            if group in seen:
                continue
            seen.add(group)
            for number in self._members[group]:
                for user in self._users[number]:
                    after = self._group[user]
                    if after in groups:
                        return True
                    pending.append(after)
        return False


def contracted(
    bindings: Sequence[Binding], groups: Sequence[Sequence[int]], made: Callable[[int], Sequence[Binding]]
) -> list[Binding]:
    """Return the bindings with each group replaced by `made(number of the group)`.

    The order keeps definitions before uses. A group stands where its last binding did; what used its first ones before
    that comes after it.
    """
    owner = {number: place for place, group in enumerate(groups) for number in group}
    late: set[Node] = set()
    for group in groups:
        late.update(node for number in group for node in _defines(bindings[number]))
    result: list[Binding] = []
    waiting: list[tuple[Sequence[Binding], set[Node]]] = []

    def put(items: Sequence[Binding], needs: set[Node]) -> bool:
        own = {node for item in items for node in _defines(item)}
        if needs & (late - own):
            return False
        result.extend(items)
        late.difference_update(own)
        return True

    def settle() -> None:
        again = True
        while again:
            again = False
            for entry in list(waiting):
                if put(*entry):
                    waiting.remove(entry)
                    again = True

    for number, binding in enumerate(bindings):
        place = owner.get(number)
        if place is None:
            items: Sequence[Binding] = (binding,)
        elif number == max(groups[place]):
            items = made(place)
            # results that only the group itself read are gone
            kept = {node for item in items for node in _defines(item)}
            late.difference_update(
                node for member in groups[place] for node in _defines(bindings[member]) if node not in kept
            )
        else:
            continue
        needs = {node for item in items for node in _needs(item)}
        needs -= {node for item in items for node in _defines(item)}
        if not put(items, needs):
            late.update(node for item in items for node in _defines(item))
            waiting.append((items, needs))
        elif waiting:
            settle()
    settle()
    assert not waiting
    return result


def _defines(binding: Binding) -> list[Node]:
    made: list[Node] = [binding.var]
    return made + list(symbols_set_by(binding.struct_info)) if isinstance(binding, MatchCast) else made


def _needs(binding: Binding) -> list[Node]:
    used: list[Node] = [node for node in walk(binding.value) if isinstance(node, Var | n.Var)]
    info = binding.var.struct_info_
    return used if info is None else used + list(symbols_in(info))
