"""The part of a function that depends on its weights alone."""

from __future__ import annotations

from compiler.ir.visit import walk
from compiler.relax.analysis.purity import contains_impure_call
from compiler.relax.nodes import Binding, BindingBlock, Function, MatchCast, Var
from compiler.relax.nodes.symbols import symbols_in
from compiler.tir import nodes as n


def computable_at_compile_time(func: Function) -> list[Var]:
    """The variables whose values follow from parameters that are no inputs, in order of binding.

    The attribute "num_input" says how many parameters, from the first on, are inputs; without it there are no
    weights, and so no such variables.
    """
    inputs = func.attrs.get("num_input")
    if inputs is None or func.body is None:
        return []
    known: set[object] = set(func.params[int(inputs) :])
    known.update(var for param in func.params[int(inputs) :] for var in symbols_in(param.struct_info))
    found: list[Var] = []
    for block in func.body.blocks:
        found += _in_block(block, known)
    return found


def _in_block(block: BindingBlock, known: set[object]) -> list[Var]:
    found = []
    for binding in block.bindings:
        mentioned = [node for node in walk(binding.value) if isinstance(node, Var | n.Var)]
        if isinstance(binding, MatchCast) or contains_impure_call(binding.value):
            continue
        defined = {node.var for node in walk(binding.value) if isinstance(node, Binding)}
        if all(node in known or node in defined for node in mentioned):
            known.add(binding.var)
            found.append(binding.var)
    return found
