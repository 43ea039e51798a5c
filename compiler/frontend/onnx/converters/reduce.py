"""Reductions over dimensions, whose axes may be known only when the program runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from compiler import topi
from compiler.dtype import parse_dtype
from compiler.frontend.onnx.graph_builder import GraphBuilder
from compiler.frontend.onnx.kernels import elements
from compiler.frontend.onnx.node import Node
from compiler.frontend.onnx.registry import Converter, Result, converter
from compiler.frontend.onnx.run_time import AxesLast
from compiler.ir.base import RelaxExpr
from compiler.relax import op
from compiler.te.operation import comm_reducer, compute, reduce_axis
from compiler.te.tensor import Tensor
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr

Rule = Callable[[GraphBuilder, RelaxExpr, "list[int] | None", bool], RelaxExpr]


def _by(rule: Callable[..., RelaxExpr]) -> Rule:
    return lambda g, x, axes, keep: rule(x, axes, keep)


def _by_sum(before: Callable[[Any], RelaxExpr] | None, after: Callable[[Any], RelaxExpr] | None) -> Rule:
    def reduce(g: GraphBuilder, x: RelaxExpr, axes: list[int] | None, keep: bool) -> RelaxExpr:
        inner = x if before is None else g.emit(before(x))
        total = g.emit(op.sum(inner, axes, keep))
        return total if after is None else after(total)

    return reduce


def _log_sum_exp(g: GraphBuilder, x: RelaxExpr, axes: list[int] | None, keep: bool) -> RelaxExpr:
    """The logarithm of the sum of exp(x).
    The largest element is subtracted first, so that nothing overflows."""
    top = g.emit(op.max(x, axes, True))
    dtype = g.info(x).dtype
    top = g.emit(op.where(g.emit(op.isfinite(top)), top, g.full(0, dtype)))
    total = g.emit(op.sum(g.emit(op.exp(g.emit(op.subtract(x, top)))), axes, keep))
    if not keep:
        top = g.emit(op.reshape(top, g.shape_expr(g.shape(total))))
    return op.add(g.emit(op.log(total)), top)


def _whole_mean(g: GraphBuilder, x: RelaxExpr, axes: list[int] | None, keep: bool) -> RelaxExpr:
    """The mean; of integers rounded towards zero."""
    dtype = g.info(x).dtype
    if parse_dtype(dtype).is_float:
        return op.mean(x, axes, keep)
    total = g.emit(op.sum(x, axes, keep))
    count = g.vector(g.shape(x)) if axes is None else g.vector([g.shape(x)[a] for a in axes])
    return g.te(_divided, total, g.emit(op.prod(g.expr(count))))


def _divided(total: Tensor, count: Tensor) -> Tensor:
    made: Tensor = topi.trunc_divide(total, compute((), lambda: count().astype(total.dtype)))
    return made


def _extremum(rule: Callable[..., RelaxExpr], largest: bool) -> Rule:
    def reduce(g: GraphBuilder, x: RelaxExpr, axes: list[int] | None, keep: bool) -> RelaxExpr:
        dtype, sizes = g.info(x).dtype, g.sizes(x)
        if sizes is not None and 0 in sizes and 0 not in (left := _left(sizes, axes, keep)):
            return op.full(left, _least(g, dtype, largest))
        if dtype == "bool":
            made = g.emit(rule(g.emit(op.astype(x, "uint8")), axes, keep))
            return op.astype(made, "bool")
        if parse_dtype(dtype).is_float:
            return g.te(_float_extremum, x, axes, keep, largest, name="max" if largest else "min")
        return rule(x, axes, keep)

    return reduce


def _float_extremum(x: Tensor, axes: list[int] | None, keep: bool, largest: bool) -> Tensor:
    """The extremum of floats, with infinities. te's own reduction begins at the largest finite float."""
    gone = list(range(x.ndim)) if axes is None else axes
    if not gone:
        return topi.identity(x)
    worst = float("-inf") if largest else float("inf")
    pick = comm_reducer(
        lambda a, b: ops.maximum(a, b) if largest else ops.minimum(a, b), lambda dtype: ops.const(worst, dtype),
        name="max" if largest else "min",
    )  # fmt: skip
    over = [reduce_axis((0, x.shape[d]), f"k{d}") for d in gone]

    def at(*i: PrimExpr) -> Any:
        rest = [p for d, p in enumerate(i) if d not in gone] if keep else list(i)
        places = iter(rest)
        inner = {d: axis.var for d, axis in zip(gone, over)}
        return pick(x(*[inner[d] if d in inner else next(places) for d in range(x.ndim)]), over)

    shape = [1 if d in gone else size for d, size in enumerate(x.shape) if keep or d not in gone]
    return elements(tuple(shape), at, name="extremum")


def _left(sizes: list[int], axes: list[int] | None, keep: bool) -> list[int]:
    """The shape of a reduction's result."""
    gone = range(len(sizes)) if axes is None else axes
    return [1 if d in gone else size for d, size in enumerate(sizes) if keep or d not in gone]


def _least(g: GraphBuilder, dtype: str, largest: bool) -> RelaxExpr:
    """The extremum of no elements."""
    if dtype == "bool":
        return g.full(float(not largest), dtype)
    if parse_dtype(dtype).is_float:
        return g.full(float("-inf") if largest else float("inf"), dtype)
    limits = np.iinfo(dtype)
    return g.full(int(limits.min if largest else limits.max), dtype)


RULES: dict[str, Rule] = {
    "ReduceSum": _by(op.sum),
    "ReduceProd": _by(op.prod),
    "ReduceMean": _whole_mean,
    "ReduceMax": _extremum(op.max, True),
    "ReduceMin": _extremum(op.min, False),
    "ReduceL1": _by_sum(op.abs, None),
    "ReduceL2": _by_sum(op.square, op.sqrt),
    "ReduceSumSquare": _by_sum(op.square, None),
    "ReduceLogSum": _by_sum(None, op.log),
    "ReduceLogSumExp": _log_sum_exp,
}


def _reduction(rule: Rule) -> Converter:
    def convert(g: GraphBuilder, node: Node) -> Result:
        x, keep = g.expr(node.value(0)), bool(node.int("keepdims", 1))
        given = node.optional(1)
        axes: list[int] | None = node.ints("axes")
        if given is not None:
            if not given.is_constant and g.sizes(given) != [0]:
                if g.rank(x) == 1:
                    axes = [0]
                else:
                    return _at_run_time(g, x, given, keep, rule)
            elif given.is_constant:
                axes = g.static_ints(given, "axes")
        if not axes:
            if node.int("noop_with_empty_axes", 0):
                return _without_axes(g, node, x)
            axes = None
        elif g.rank(x):
            axes = sorted({axis % g.rank(x) for axis in axes})
        return rule(g, x, axes, keep)

    return convert


def _without_axes(g: GraphBuilder, node: Node, x: RelaxExpr) -> Result:
    """Reduce over no dimension: what is done to each element remains."""
    match node.op:
        case "ReduceL1" | "ReduceL2":
            return op.abs(x)
        case "ReduceSumSquare":
            return op.square(x)
        case "ReduceLogSum":
            return op.log(x)
    return node.value(0)


def _at_run_time(g: GraphBuilder, x: RelaxExpr, axes: Any, keep: bool, rule: Rule) -> Result:
    sizes, info = g.sizes(x), g.info(x)
    if sizes is not None and 0 in sizes and rule in (RULES["ReduceMax"], RULES["ReduceMin"]):
        # Whichever dimension is empty: if it goes, nothing is reduced, and if not, nothing is left.
        return _of_nothing(g, x, axes, keep, _least(g, info.dtype, rule is RULES["ReduceMax"]))
    order = AxesLast(g, x, axes)
    rank = len(order.original)
    made = rule(g, order.moved, list(range(order.kept, rank)), False)
    if not keep:
        return made
    return op.reshape(g.emit(made), g.shape_expr(order.sizes))


def _of_nothing(g: GraphBuilder, x: RelaxExpr, axes: Any, keep: bool, value: RelaxExpr) -> Result:
    """A value in the shape of a reduction's result."""
    order = AxesLast(g, x, axes)
    return op.full(g.shape_expr(order.sizes if keep else order.shape[: order.kept]), value)


for _name, _rule in RULES.items():
    converter(_name)(_reduction(_rule))


@converter("ArgMax", "ArgMin")
def arg_extremum(g: GraphBuilder, node: Node) -> Result:
    """Find where the largest or smallest element stands along `axis`."""
    x = g.expr(node.value(0))
    axis, keep = node.int("axis", 0), bool(node.int("keepdims", 1))
    largest = node.op == "ArgMax"
    if not node.int("select_last_index", 0):
        return op.astype(g.emit((op.argmax if largest else op.argmin)(x, axis, keep)), "int64")
    rule = topi.argmax if largest else topi.argmin
    made = g.te(rule, x, axis, keep, True)
    return op.astype(made, "int64")
