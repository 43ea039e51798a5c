"""Find the functions of a graph that are loops: those that call each other last.

A frontend writes a loop as a function that calls itself last. As machine code it is a loop, so its stack does not grow
with the number of steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from compiler.ir.base import GlobalVar, Op, RelaxExpr
from compiler.ir.visit import walk
from compiler.relax import nodes as r


@dataclass(frozen=True, slots=True)
class Loops:
    """The loops of functions: `bodies` are each loop's functions, by the name of the one others call.
    `recursive` are functions that call themselves otherwise."""

    bodies: Mapping[str, frozenset[str]]
    recursive: frozenset[str]

    @property
    def inner(self) -> frozenset[str]:
        """The functions that are parts of a loop only."""
        return frozenset(name for head, names in self.bodies.items() for name in names - {head})


def loops_of(graphs: Mapping[str, r.Function]) -> Loops:
    """The loops among a module's graph functions."""
    calls = {name: called_functions(func) & graphs.keys() for name, func in graphs.items()}
    bodies: dict[str, frozenset[str]] = {}
    recursive: set[str] = set()
    for group in _groups(calls):
        members = [name for name in graphs if name in group]
        heads = [name for name in members if _is_entered(name, group, calls)] or members[:1]
        if len(heads) == 1 and all(tail_calls_only(graphs[name], group) for name in members):
            bodies[heads[0]] = group
        else:
            recursive |= group
    return Loops(bodies, frozenset(recursive))


def called_functions(func: r.Function) -> frozenset[str]:
    """The names of the module's functions that a function mentions."""
    found = {node.name_hint for node in walk(func.body) if isinstance(node, GlobalVar)}
    return frozenset(found | {node.global_symbol for node in walk(func.body) if isinstance(node, r.ExternFunc)})


def _is_entered(name: str, group: frozenset[str], calls: Mapping[str, frozenset[str]]) -> bool:
    """Whether a function is called from outside its group."""
    return any(name in called for caller, called in calls.items() if caller not in group)


def _groups(calls: Mapping[str, frozenset[str]]) -> list[frozenset[str]]:
    """The sets of functions that call each other, or themselves."""
    reached = {name: _reached(name, calls) for name in calls}
    groups: dict[frozenset[str], None] = {}
    for name, names in reached.items():
        if name in names:
            groups[frozenset(other for other in names if name in reached[other])] = None
    return list(groups)


def _reached(name: str, calls: Mapping[str, frozenset[str]]) -> frozenset[str]:
    found: set[str] = set()
    todo = list(calls[name])
    while todo:
        following = todo.pop()
        if following not in found:
            found.add(following)
            todo += calls[following]
    return frozenset(found)


def tail_calls_only(func: r.Function, group: frozenset[str]) -> bool:
    """Whether a function calls functions of a group only in tail position."""
    assert isinstance(func.body, r.SeqExpr)
    mentions = sum(node.name_hint in group for node in walk(func.body) if isinstance(node, GlobalVar))
    return mentions == _tail_calls(func.body, group)


def _tail_calls(seq: RelaxExpr, group: frozenset[str]) -> int:
    if not isinstance(seq, r.SeqExpr):
        return 0
    match tail_of(seq):
        case r.Binding(value=r.Call(op=GlobalVar(name_hint=name))) if name in group:
            return 1
        case r.Binding(value=r.If() as branches):
            return _tail_calls(branches.true_branch, group) + _tail_calls(branches.false_branch, group)
    return 0


def tail_of(seq: r.SeqExpr) -> r.Binding | None:
    """Return the binding of the call or condition in tail position; None if something follows it."""
    bindings = [binding for block in seq.blocks for binding in block.bindings]
    made = {binding.var: binding for binding in bindings}
    fields = {b.var: b.value for b in bindings if isinstance(b.value, r.TupleGetItem)}
    result = seq.body
    while isinstance(result, r.Var | r.Tuple):
        if isinstance(result, r.Tuple):
            whole = _whole(result.fields, fields)
            if whole is None:
                return None
            result = whole
            continue
        found = made.get(result)
        if found is None or isinstance(found, r.MatchCast):
            return None
        if isinstance(found.value, r.Var | r.Tuple):
            result = found.value
            continue
        after = bindings[bindings.index(found) + 1 :]
        return found if all(map(_does_nothing, after)) else None
    return None


def _whole(items: Sequence[RelaxExpr], fields: Mapping[r.Var, r.TupleGetItem]) -> r.Var | None:
    """The tuple of which these are all fields in order."""
    found: r.Var | None = None
    for index, item in enumerate(items):
        field = fields.get(item) if isinstance(item, r.Var) else item
        if not isinstance(field, r.TupleGetItem) or field.index != index or not isinstance(field.tuple_value, r.Var):
            return None
        if found is not None and field.tuple_value is not found:
            return None
        found = field.tuple_value
    if found is None or not isinstance(found.struct_info, r.TupleStructInfo):
        return None
    return found if len(found.struct_info.fields) == len(items) else None


def _does_nothing(binding: r.Binding) -> bool:
    """Whether a binding after a call runs nothing: it renames a value, or ends its life."""
    match binding.value:
        case r.Var() | r.Tuple() | r.TupleGetItem():
            return not isinstance(binding, r.MatchCast)
        case r.Call(op=Op(name=name)):
            return name == "relax.vm.kill_object" or name.startswith("relax.memory.kill_")
    return False
