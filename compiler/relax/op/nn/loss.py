"""Losses."""

from __future__ import annotations

from compiler import topi
from compiler.relax.nodes import Expr, StructInfo
from compiler.relax.op.core.layout import as_written
from compiler.relax.op.core.params import OptionalTensor, TensorArg
from compiler.relax.op.core.registry import OpPatternKind, operator
from compiler.relax.op.core.rules import check_kind, tensor
from compiler.relax.op.core.use import Use
from compiler.relax.op.core.work import per_input
from compiler.relax.op.gradients import norm as slopes
from compiler.te.tensor import Tensor

__all__ = ["cross_entropy_with_logits", "nll_loss"]


def _cross_entropy_info(use: Use) -> StructInfo:
    a, b = use.tensor("predictions"), use.tensor("labels")
    use.check_float("predictions", "labels")
    dtype = use.dtype("predictions", "labels")
    known = [info.ndim for info in (a, b) if info.ndim != -1]
    if any(rank == 0 for rank in known) or len(set(known)) > 1:
        use.fail(f"predictions and labels must have one shape, with dimensions; they have {known} dimensions")
    for axis, (x, y) in enumerate(zip(a.dims or (), b.dims or ())):
        use.check_equal(f"the dimensions {axis} of predictions and labels", x, y, "predictions", "labels")
    return tensor((), dtype, vdevice=use.vdevice("predictions", "labels"))


@operator(
    "relax.nn.cross_entropy_with_logits", infer=_cross_entropy_info, te=topi.nn.cross_entropy_with_logits,
    pattern=OpPatternKind.OPAQUE, flops=per_input(2), layout=as_written, gradient=slopes.cross_entropy,
    precision="never",
)  # fmt: skip
def cross_entropy_with_logits(predictions: TensorArg, labels: TensorArg) -> Expr:
    """Take minus the sum of predictions * labels, divided by the rows if there are several dimensions.

    `predictions` are logarithms of probabilities.
    """


def _nll_info(use: Use) -> StructInfo:
    data, targets = use.tensor("predictions"), use.tensor("targets")
    names = ["predictions", *(["weights"] if use.rest("weights") else [])]
    use.check_float(*names)
    check_kind(use, ("targets",), floats=False, integers=True, bools=False)
    dtype, reduction = use.dtype(*names), use.call.attrs["reduction"]
    if reduction not in ("none", "mean", "sum"):
        use.fail(f"reduction is {reduction!r}, it must be 'none', 'mean' or 'sum'")
    if data.ndim == 0 or (data.ndim != -1 and targets.ndim not in (-1, data.ndim - 1)):
        use.fail(f"predictions must have one dimension more than targets, got {data.ndim} and {targets.ndim}")
    if data.dims is not None and targets.dims is not None:
        outer = () if data.ndim == 1 else (data.dims[0], *data.dims[2:])
        for x, y in zip(outer, targets.dims):
            use.check_equal("dimensions of predictions and targets", x, y, "predictions", "targets")
    if "weights" in names:
        weights = use.tensor("weights", 1)
        if weights.dims is not None and data.dims is not None:
            classes = data.dims[min(1, data.ndim - 1)]
            use.check_equal("the classes of predictions and weights", classes, weights.dims[0], *names)
    device = use.vdevice(*names, "targets")
    if reduction != "none":
        return tensor((), dtype, vdevice=device)
    if targets.dims is not None:
        return tensor(targets.dims, dtype, vdevice=device)
    rank = targets.ndim if targets.ndim != -1 or data.ndim == -1 else data.ndim - 1
    return tensor(() if rank == 0 else None, dtype, rank, device)


def _nll(
    predictions: Tensor, targets: Tensor, weights: Tensor | None = None, *, reduction: str, ignore_index: int
) -> Tensor:
    return topi.nn.nll_loss(predictions, targets, weights, reduction, ignore_index)


@operator(
    "relax.nn.nll_loss", infer=_nll_info, te=_nll, pattern=OpPatternKind.OPAQUE, flops=per_input(2, 1),
    layout=as_written, gradient=slopes.nll_loss, precision="never",
)  # fmt: skip
def nll_loss(
    predictions: TensorArg,
    targets: TensorArg,
    weights: OptionalTensor = None,
    reduction: str = "mean",
    ignore_index: int = -100,
) -> Expr:
    """Take minus the prediction of each target's class, times the class's weight.

    `predictions` is (N, C, ...), or (C,) for one target. A target of `ignore_index` counts nothing. The mean divides
    by the sum of weights.
    """
