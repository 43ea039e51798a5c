"""Helpers for those who write passes and tools over graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from compiler.ir.visit import walk
from compiler.relax.nodes import Function, MatchCast, ShapeExpr, TensorStructInfo, Tuple, convert_to_expr
from compiler.relax.nodes.renew import Renewal
from compiler.relax.nodes.symbols import symbols_set_by
from compiler.relax.te_calls import make_kernel
from compiler.tir import nodes as n
from compiler.tir.nodes import PrimExpr


def copy_with_new_vars(func: Function) -> Function:
    """Copy `func` with new variables, and new dimensions where it gives them a value."""
    infos = [param.struct_info for param in func.params]
    infos += [node.struct_info for node in walk(func) if isinstance(node, MatchCast)]
    symbols: dict[n.Var, PrimExpr] = {}
    for info in infos:
        for var in symbols_set_by(info):
            symbols.setdefault(var, type(var)(var.name, var.dtype))
    return Renewal(symbols=symbols, fresh=True).function(func)


def gen_call_tir_inputs(
    func: Callable[..., Any], *args: Any, **kwargs: Any
) -> tuple[n.PrimFunc, Tuple, TensorStructInfo | list[TensorStructInfo], ShapeExpr | None]:
    """The kernel that computes `func(*args, **kwargs)`, and what `call_tir` takes beside it.

    That is the arguments, what the results are, and the scalars (None without any). `primfunc_attrs` are the
    kernel's attributes.
    """
    attrs = kwargs.pop("primfunc_attrs", None)
    kernel = make_kernel(func, args, kwargs, getattr(func, "__name__", "te_func"), attrs)
    infos = list(kernel.outputs) if kernel.several else kernel.outputs[0]
    return kernel.func, Tuple(kernel.args), infos, ShapeExpr(kernel.tir_vars) if kernel.tir_vars else None


__all__ = ["convert_to_expr", "copy_with_new_vars", "gen_call_tir_inputs"]
