"""Which calls have side effects."""

from __future__ import annotations

from compiler.ir.base import GlobalVar, Node, Op, RelaxExpr
from compiler.ir.visit import child_list
from compiler.relax.nodes import Call, FuncStructInfo, Function, Var, info_of


def is_impure_call(call: Call) -> bool:
    """Whether `call` may have a side effect.
    It may if its operator or function says so, or is not known."""
    if isinstance(call.op, Op):
        return not call.op.pure
    info = info_of(call.op)
    return not (isinstance(info, FuncStructInfo) and info.purity)


def contains_impure_call(expr: RelaxExpr, own_name: Var | GlobalVar | None = None) -> bool:
    """Whether evaluating `expr`, or calling it if it is a function, may have a side effect.

    Calls of `own_name`, by which the function calls itself, do not count. Neither do functions that are only defined
    inside.
    """
    start = expr.body if isinstance(expr, Function) else expr
    stack: list[Node] = [start] if start is not None else []
    while stack:
        node = stack.pop()
        if isinstance(node, Call):
            same = node.op is own_name or (isinstance(own_name, GlobalVar) and node.op == own_name)
            if not same and is_impure_call(node):
                return True
        if not isinstance(node, Function):
            stack += child_list(node)
    return False
