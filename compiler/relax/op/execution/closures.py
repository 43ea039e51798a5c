"""Closures: functions with values for their last parameters."""

from __future__ import annotations

from typing import Any

from compiler.ir.base import GlobalVar
from compiler.relax.nodes import Expr, FuncStructInfo, ObjectStructInfo, StructInfo, TupleStructInfo, info_of
from compiler.relax.op.core.params import ExprArg, FuncArg, ResultInfos, TupleArg
from compiler.relax.op.core.registry import OpPatternKind, built_in, operator, refused
from compiler.relax.op.core.use import Use
from compiler.relax.op.core.work import nothing


def _closure_info(use: Use) -> StructInfo:
    func, given = use.arg("func"), use.info("args")
    named = isinstance(func, GlobalVar) and use.context is not None
    known = use.context.info_of_function(func) if named else info_of(func)
    if not isinstance(known, FuncStructInfo) or known.params is None or not isinstance(given, TupleStructInfo):
        return ObjectStructInfo()
    count = len(known.params) - len(given.fields)
    if count < 0:
        use.fail(f"func has {len(known.params)} parameters, and {len(given.fields)} values are given for them")
    return FuncStructInfo(known.params[:count], known.ret, known.purity)


@operator(
    "relax.make_closure", infer=_closure_info, te=refused("the machine does it, not a kernel"), host=built_in,
    pattern=OpPatternKind.OPAQUE, flops=nothing, bytes=nothing, layout=refused("it passes tensors on as they are"),
    gradient=refused("gradients are made before functions are lifted"),
)  # fmt: skip
def make_closure(func: FuncArg, args: TupleArg) -> Expr:
    """Give a function that calls `func` with its own arguments and then `args`."""


def _invoked_info(use: Use) -> StructInfo:
    given = use.call.sinfo_args
    return given[0] if len(given) == 1 else TupleStructInfo(given) if given else ObjectStructInfo()


_INVOKED: dict[str, Any] = {
    "infer": _invoked_info,
    "te": refused("the machine does it, not a kernel"),
    "host": built_in,
    "pattern": OpPatternKind.OPAQUE,
    "flops": refused("what the function does is not known"),
    "layout": refused("it passes tensors on as they are"),
    "gradient": refused("gradients are made before functions are lifted"),
}


@operator("relax.invoke_closure", **_INVOKED, pure=False)
def invoke_closure(closure: ExprArg, args: TupleArg, sinfo_args: ResultInfos) -> Expr:
    """Call what `make_closure` gave; the call may have side effects."""


@operator("relax.invoke_pure_closure", **_INVOKED)
def invoke_pure_closure(closure: ExprArg, args: TupleArg, sinfo_args: ResultInfos) -> Expr:
    """Call what `make_closure` gave, a function known to have no side effects."""
