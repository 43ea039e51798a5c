"""Losses."""

from __future__ import annotations

from compiler.te.operation import compute, const, reduce_axis
from compiler.te.operation import sum as te_sum
from compiler.te.tensor import Tensor
from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.nodes import PrimExpr, Var
from compiler.topi.checks import (
    described,
    differ,
    need_floats,
    need_integers,
    need_one_of,
    need_shape,
    product,
    refusal,
)
from compiler.topi.reduction import sum as total

_REDUCTIONS = ("none", "mean", "sum")


def nll_loss(
    predictions: Tensor, targets: Tensor, weights: Tensor | None, reduction: str = "mean", ignore_index: int = -100
) -> Tensor:
    """The negative log likelihood: minus the prediction of each target's class, times the class's weight.

    `predictions` is (N, C, ...), or (C,) for one target; `targets` (N, ...) holds classes; `weights` (C,) or None for
    ones. A target of `ignore_index` counts 0. "mean" divides by the weights' sum. Raises IRError on misfits.
    """
    op = "nll_loss"
    need_one_of(op, "reduction", reduction, _REDUCTIONS)
    need_floats(op, predictions)
    need_integers(op, targets)
    if predictions.ndim != targets.ndim + 1:
        raise refusal(op, f"ranks do not fit: {described(predictions, targets)}")
    single = targets.ndim == 0
    if not single and any(
        differ(*pair) for pair in zip([predictions.shape[0], *predictions.shape[2:]], targets.shape)
    ):
        raise refusal(op, f"shapes do not fit: {described(predictions, targets)}")
    classes = predictions.shape[0 if single else 1]
    if weights is not None:
        need_shape(op, weights, [classes])
    dtype = predictions.dtype

    def weight(*i: Var) -> PrimExpr:
        target = targets(*i)
        given = const(1.0, dtype) if weights is None else weights(target)
        inside = ops.logical_and(ops.greater_equal(target, 0), ops.less(target, classes))
        counts = ops.logical_and(inside, ops.not_equal(target, ignore_index))
        return intrin.if_then_else(counts, given, const(0.0, dtype))

    def loss(*i: Var) -> PrimExpr:
        target = targets(*i)
        point = (target,) if single else (i[0], target, *i[1:])
        counts = ops.logical_and(ops.greater_equal(target, 0), ops.less(target, classes))
        kept = ops.logical_and(counts, ops.not_equal(target, ignore_index))
        return intrin.if_then_else(kept, -predictions(*point), const(0.0, dtype))

    share: Tensor = compute(targets.shape, weight, name="T_nll_weight", tag="injective")
    each: Tensor = compute(targets.shape, lambda *i: loss(*i) * share(*i), name="T_nll_loss", tag="injective")
    if reduction == "none" or (single and reduction == "sum"):
        return each
    if single:
        result: Tensor = compute((), lambda: each() / share(), name="T_nll_mean", tag="elemwise")
        return result
    whole = total(each)
    if reduction == "sum":
        return whole
    divisor = total(share)
    mean: Tensor = compute((), lambda: whole() / divisor(), name="T_nll_mean", tag="elemwise")
    return mean


def nll_loss_backward(
    grad: Tensor, predictions: Tensor, targets: Tensor, weights: Tensor | None = None, reduction: str = "mean",
    ignore_index: int = -100,
) -> Tensor:  # fmt: skip
    """The gradient of the predictions of `nll_loss`, from that of its result."""
    op = "nll_loss_backward"
    need_one_of(op, "reduction", reduction, _REDUCTIONS)
    need_floats(op, predictions)
    need_integers(op, targets)
    single = targets.ndim == 0
    classes, dtype = predictions.shape[0 if single else 1], predictions.dtype

    def counts(target: PrimExpr) -> PrimExpr:
        inside = ops.logical_and(ops.greater_equal(target, 0), ops.less(target, classes))
        return ops.logical_and(inside, ops.not_equal(target, ignore_index))

    def weight(*i: Var) -> PrimExpr:
        target = targets(*i)
        given = const(1.0, dtype) if weights is None else weights(target)
        return intrin.if_then_else(counts(target), given, const(0.0, dtype))

    share: Tensor = compute(targets.shape, weight, name="T_nll_weight", tag="injective")
    divisor = total(share) if reduction == "mean" and not single else None

    def value(*i: Var) -> PrimExpr:
        place, chosen = (i[:0], i[0]) if single else ((i[0], *i[2:]), i[1])
        target = targets(*place)
        held = ops.logical_and(counts(target), ops.equal(target, ops.cast(targets.dtype, chosen)))
        given = grad(*place) if reduction == "none" else grad()
        part = -given * share(*place)
        if reduction == "mean":
            part = part / (share() if divisor is None else divisor())
        return intrin.select(held, part, const(0.0, dtype))

    result: Tensor = compute(predictions.shape, value, name="T_nll_loss_backward", tag="injective")
    return result


def cross_entropy_with_logits(logits: Tensor, targets: Tensor) -> Tensor:
    """Minus the sum of logits * targets, divided by the rows when there are two dimensions.

    Both have one shape, of one or two dimensions; "logits" are log-probabilities.
    """
    op = "cross_entropy_with_logits"
    need_floats(op, logits, targets)
    need_shape(op, targets, logits.shape)
    if logits.ndim < 1:
        raise refusal(op, f"{described(logits)} has no dimensions")
    axes = [reduce_axis((0, size), name=f"k{d}") for d, size in enumerate(logits.shape)]
    point = [axis.var for axis in axes]
    summed: Tensor = compute(
        (), lambda: te_sum(logits(*point) * targets(*point), axis=axes), name="T_cross_entropy", tag="comm_reduce"
    )
    rows = ops.cast(logits.dtype, product(logits.shape[:1]) if logits.ndim > 1 else 1)
    result: Tensor = compute((), lambda: ops.neg(summed()) / rows, name="T_cross_entropy_mean", tag="elemwise")
    return result
