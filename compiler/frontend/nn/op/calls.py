"""Kernels and functions of one's own in methods of modules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from compiler.frontend.nn.values import Object, Tensor, current_builder, wrap_nested
from compiler.ir.base import RelaxExpr
from compiler.relax.nodes import ObjectStructInfo, ShapeExpr, TensorStructInfo, convert_to_expr
from compiler.relax.op import call_pure_packed, call_tir, call_tir_inplace
from compiler.tir.nodes import PrimExpr, PrimFunc


def _plain(value: Any) -> Any:
    if isinstance(value, Tensor | Object):
        return value._expr
    if isinstance(value, list | tuple):
        return type(value)([_plain(item) for item in value])
    return value


def _info(out: Any) -> Any:
    if isinstance(out, list | tuple):
        return [_info(item) for item in out]
    if not isinstance(out, Tensor):
        return ObjectStructInfo()
    return TensorStructInfo(out.shape, out.dtype)  # type: ignore[arg-type]


def tensor_expr_op(
    tensor_expr_func: Callable[..., Any], name_hint: str, args: Sequence[Any], *, attrs: dict[str, Any] | None = None
) -> Any:
    """Compute by a te function of the arguments, which becomes a kernel called `name_hint`."""
    made = current_builder().call_te(
        tensor_expr_func, *[_plain(arg) for arg in args], primfunc_name_hint=name_hint, primfunc_attrs=attrs
    )
    return wrap_nested(made, name_hint)


def _split(args: Sequence[Any]) -> tuple[list[RelaxExpr], ShapeExpr | None]:
    """Tensors, and the sizes after them."""
    tensors: list[RelaxExpr] = [_plain(arg) for arg in args if not isinstance(arg, int | PrimExpr)]
    sizes = [arg for arg in args if isinstance(arg, int | PrimExpr)]
    return tensors, ShapeExpr(tuple(sizes)) if sizes else None  # type: ignore[arg-type]


def tensor_ir_op(func: PrimFunc, name_hint: str, args: Any, out: Any) -> Any:
    """Call a TensorIR function: tensors first, sizes last. `out` are tensors of the results' shapes."""
    given = list(args) if isinstance(args, list | tuple) else [args]
    tensors, sizes = _split(given)
    gvar = current_builder().add_func(func, name_hint)
    return wrap_nested(call_tir(gvar, tensors, _info(out), sizes), name_hint)


def tensor_ir_inplace_op(
    func: PrimFunc, name_hint: str, args: Any, inplace_indices: int | Sequence[int], out: Any
) -> Any:
    """Call a TensorIR function that writes its results into its arguments `inplace_indices`."""
    given = list(args) if isinstance(args, list | tuple) else [args]
    tensors, sizes = _split(given)
    gvar = current_builder().add_func(func, name_hint)
    indices = inplace_indices if isinstance(inplace_indices, int) else list(inplace_indices)
    return wrap_nested(call_tir_inplace(gvar, tensors, indices, _info(out), sizes), name_hint)


def extern(name: str, args: Sequence[Any], out: Any) -> Any:
    """Call a function that the runtime knows by name. `out` are tensors of the results' shapes."""
    exprs = [convert_to_expr(_plain(arg)) for arg in args]
    return wrap_nested(call_pure_packed(name, *exprs, sinfo_args=_info(out)), name)
