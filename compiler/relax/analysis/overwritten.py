"""Values that a call writes over."""

from __future__ import annotations

from compiler.ir.base import Op, RelaxExpr
from compiler.ir.visit import walk
from compiler.relax.nodes import Binding, Call, Function, Tuple, TupleGetItem, Var


def overwritten_values(func: Function) -> frozenset[Var]:
    """Return the variables whose memory a call of `func` changes (`inplace_indices`).

    Inner functions are included. A pass must not let such a variable share memory with another one that was computed by
    itself.
    """
    if func.body is None:
        return frozenset()
    found: set[Var] = set()
    bindings = [node for node in walk(func.body) if isinstance(node, Binding)]
    for binding in bindings:
        for arg in _changed_arguments(binding.value):
            found.update(node for node in walk(arg) if isinstance(node, Var))
    if found:
        _add_aliases(found, bindings)
    return frozenset(found)


def _changed_arguments(value: RelaxExpr) -> list[RelaxExpr]:
    if not isinstance(value, Call) or not isinstance(value.op, Op) or "inplace_indices" not in value.attrs:
        return []
    args = value.args[1:]
    if value.op.name == "relax.call_tir_inplace":
        if not isinstance(args[0], Tuple):
            return [args[0]]
        args = args[0].fields
    return [args[index] for index in value.attrs["inplace_indices"] if index >= 0]


def _add_aliases(found: set[Var], bindings: list[Binding]) -> None:
    """Add the variables that those of `found` are another name, a tuple or a field of."""
    makers = {binding.var: binding.value for binding in bindings}
    stack = [*found]
    while stack:
        value = makers.get(stack.pop())
        if isinstance(value, Var | Tuple | TupleGetItem):
            more = {node for node in walk(value) if isinstance(node, Var)} - found
            found |= more
            stack += more
