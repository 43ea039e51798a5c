"""Graphs without what nothing uses."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.errors import ArgumentError
from compiler.ir.base import GlobalVar, Node
from compiler.ir.function import BaseFunc
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.ir.visit import walk
from compiler.relax.analysis.unused import remove_all_unused
from compiler.relax.nodes import Function
from compiler.relax.transform.passes import relax_pass
from compiler.suggest import closest


@relax_pass("DeadCodeElimination", opt_level=1)
def dead_code_elimination(
    mod: IRModule, context: PassContext, *, entry_functions: Sequence[str] | None = None
) -> IRModule:
    """Remove bindings that nothing uses and that have no side effect, and functions that nothing calls.

        lv = R.exp(x)            →    lv1 = R.negative(x)
        lv1 = R.negative(x)           return lv1
        return lv1

    What `entry_functions` call is kept; without them, what functions with a global symbol call.
    """
    functions: dict[GlobalVar, BaseFunc] = {
        name: remove_all_unused(func) if isinstance(func, Function) else func for name, func in mod.items()
    }
    names = {name.name_hint: name for name in functions}
    for entry in entry_functions or ():
        if entry not in names:
            raise ArgumentError(f"DeadCodeElimination: there is no function {entry!r}", hint=closest(entry, names))
    if entry_functions is None:
        todo = [name for name, func in functions.items() if "global_symbol" in func.attrs]
    else:
        todo = [names[entry] for entry in entry_functions]
    if not todo:
        return mod.with_functions(functions)
    reached: set[GlobalVar] = set()
    while todo:
        name = todo.pop()
        if name in reached or name not in functions:
            continue
        reached.add(name)
        func: Node = functions[name]
        todo += [node for node in walk(func) if isinstance(node, GlobalVar)]
    return mod.with_functions({name: func for name, func in functions.items() if name in reached})
