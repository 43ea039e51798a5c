"""The functions that describe a computation: placeholder, compute, axes, variables.

This module offers all of te's describing names; schedules are in `compiler.te.schedule.schedule`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from compiler.errors import IRError
from compiler.ir.base import Op, Span
from compiler.ir.visit import walk
from compiler.te.intrin_call import intrin_op, outputs_of
from compiler.te.reduction import Reducer, comm_reducer, max, min, prod, reduce_axis, sum
from compiler.te.tag import chosen
from compiler.te.tensor import ComputeOp, Tensor, TensorSlice, as_shape, check_dtype, placeholder
from compiler.te.tensor_intrin import IntrinCall
from compiler.te.where import at, caller_span, here, placing
from compiler.tir import ops
from compiler.tir.intrin.intrin import if_then_else
from compiler.tir.nodes import Call, IterType, IterVar, PrimExpr, Range, Reduce, Select, SizeVar, Var
from compiler.tir.ops import const

__all__ = [
    "Reducer", "Tensor", "comm_reducer", "compute", "const", "if_then_else", "max", "min", "placeholder",
    "prod", "reduce_axis", "size_var", "sum", "thread_axis", "var",
]  # fmt: skip

_IF_THEN_ELSE = Op.get("tir.if_then_else")


def var(name: str = "tindex", dtype: str = "int32", span: Span | None = None) -> Var:
    """A scalar that is known only when the kernel is called, such as a symbolic dimension."""
    return Var(name, check_dtype(dtype, f"variable {name!r}"), span if span is not None else caller_span())


def size_var(name: str = "size", dtype: str = "int32", span: Span | None = None) -> SizeVar:
    """Make a `var` that is never negative."""
    return SizeVar(name, check_dtype(dtype, f"variable {name!r}"), span if span is not None else caller_span())


def thread_axis(dom: Any = None, tag: str = "", name: str = "", span: Span | None = None) -> IterVar:
    """An axis of device threads, for `Stage.bind`: `thread_axis("threadIdx.x")`, or with a domain first."""
    if isinstance(dom, str):
        dom, tag = None, dom
    if not tag:
        raise IRError("thread_axis needs a thread tag such as 'threadIdx.x'" + here())
    bounds: Range | None = dom
    if isinstance(dom, tuple | list):
        bounds = Range(ops.as_expr(dom[0]), ops.as_expr(dom[1]))
    elif isinstance(dom, int | PrimExpr):
        bounds = Range.from_extent(dom)
    return IterVar(bounds, Var(name if name else tag), IterType.THREAD_INDEX, tag, span)


def compute(
    shape: Any, fcompute: Callable[..., Any], name: str = "compute", tag: str = "",
    attrs: Mapping[str, Any] | None = None, varargs_names: Sequence[str] | None = None,
) -> Any:  # fmt: skip
    """A tensor of `shape` whose element at (i, j, ...) is `fcompute(i, j, ...)`.

    The axes are named after `fcompute`'s parameters; `*args` take `varargs_names`, or i0, i1, ...
    Several values make several tensors of the same shape and axes, returned as a tuple. Raises IRError, with
    the user's line, when the parameters do not fit the rank, the result is no expression, or a reduction stands
    inside another expression.
    """
    span = caller_span()
    dims = as_shape(shape, f"compute {name!r}")
    short = _short_call(fcompute, dims)
    if short is not None:
        return outputs_of(intrin_op(*short, dims, name, tag, attrs, span))
    names = _axis_names(fcompute, len(dims), varargs_names, name, span)
    axes = tuple(
        IterVar(Range.from_extent(d, d.dtype), Var(n, d.dtype), IterType.DATA_PAR) for n, d in zip(names, dims)
    )
    with placing(f"compute {name!r}", span):
        result = fcompute(*(axis.var for axis in axes))
        if isinstance(result, IntrinCall):
            return outputs_of(intrin_op(result, [axis.var for axis in axes], dims, name, tag, attrs, span))
        several = isinstance(result, tuple | list)
        body = tuple(_as_body(r) for r in (result if several else (result,)))
    _check_body(body, name, span)
    op = ComputeOp(name, chosen(tag), dict(attrs or {}), span, axes, body)
    return tuple(op.output(i) for i in range(op.num_outputs)) if op.num_outputs > 1 else op.output(0)


def _short_call(fcompute: Callable[..., Any], dims: Sequence[PrimExpr]) -> tuple[IntrinCall, list[Var]] | None:
    """The intrinsic that a function of leading axes calls, and those axes; None for another function."""
    parameters = list(inspect.signature(fcompute).parameters.values())
    plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if len(parameters) >= len(dims) or any(p.kind not in plain for p in parameters):
        return None
    axes = [Var(parameter.name, size.dtype) for parameter, size in zip(parameters, dims)]
    try:
        made = fcompute(*axes)
    except IRError:
        return None  # what is wrong is the number of axes
    return (made, axes) if isinstance(made, IntrinCall) else None


def _as_body(value: Any) -> PrimExpr:
    if isinstance(value, TensorSlice):
        return value.asexpr()
    if value is None:
        raise IRError("the function returned nothing", hint="return the element's value")
    if isinstance(value, str):
        raise IRError(f"the function returned the text {value!r}", hint="return the element's value")
    return ops.as_expr(value)


def _axis_names(
    fcompute: Callable[..., Any], rank: int, varargs_names: Sequence[str] | None, name: str, span: Span | None
) -> list[str]:
    kinds = inspect.Parameter
    parameters = list(inspect.signature(fcompute).parameters.values())
    named = [p for p in parameters if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)]
    required = [p.name for p in named if p.default is kinds.empty]
    if any(p.kind is kinds.VAR_POSITIONAL for p in parameters) and len(named) <= rank:
        rest = rank - len(named)
        extra = [f"i{i}" for i in range(rest)] if varargs_names is None else list(varargs_names)
        if len(extra) != rest:
            raise IRError(f"compute {name!r} has {rest} axes to name, varargs_names gives {len(extra)}" + at(span))
        return [p.name for p in named] + extra
    if not len(required) <= rank <= len(named):
        raise IRError(
            f"compute {name!r} has {rank} dimensions but its function takes {len(named)} arguments" + at(span),
            hint="one argument a dimension, or lambda *i: ...",
        )
    return [p.name for p in named[:rank]]


def _check_conditions(body: PrimExpr, name: str, span: Span | None) -> None:
    for node in walk(body):
        if isinstance(node, Call) and node.op is _IF_THEN_ELSE:
            condition = node.args[0]
        elif isinstance(node, Select):
            condition = node.condition
        else:
            continue
        if condition.dtype != "bool":
            raise IRError(
                f"compute {name!r} chooses between two values by a {condition.dtype}, not a condition" + at(span),
                hint="compare it: x != 0",
            )


def _check_body(body: tuple[PrimExpr, ...], name: str, span: Span | None) -> None:
    if not body:
        raise IRError(f"compute {name!r} returned no value" + at(span))
    for expr in body:
        _check_conditions(expr, name, span)
        inner = [expr] if not isinstance(expr, Reduce) else [*expr.source, *expr.init, expr.condition]
        for part in inner:
            if any(isinstance(node, Reduce) for node in walk(part)):
                raise IRError(
                    f"compute {name!r} has a reduction inside another expression" + at(span),
                    hint="compute the reduction as a tensor of its own and read that",
                )
    first = body[0]
    for index, expr in enumerate(body[1:], 1):
        same = (
            expr.combiner is first.combiner and expr.axis == first.axis
            if isinstance(expr, Reduce) and isinstance(first, Reduce)
            else isinstance(expr, Reduce) == isinstance(first, Reduce)
        )
        if not same:
            raise IRError(
                f"outputs 0 and {index} of compute {name!r} are not the same reduction" + at(span),
                hint="return the tuple that one reducer call gives",
            )
