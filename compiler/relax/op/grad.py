"""Operators in gradients, and marks that say how gradients are taken."""

from __future__ import annotations

from typing import Any

from compiler import topi
from compiler.relax.nodes import Expr, StructInfo
from compiler.relax.op.core.backward import Backward, Gradients
from compiler.relax.op.core.families import flat
from compiler.relax.op.core.layout import as_written, follows
from compiler.relax.op.core.params import Ints, OptionalTensor, TensorArg
from compiler.relax.op.core.registry import OpPatternKind, operator, refused
from compiler.relax.op.core.use import Use
from compiler.relax.op.core.work import nothing, per_input
from compiler.relax.op.nn.pool import kernel_layout, pool_canonical, pool_sizes
from compiler.relax.op.nn.stored import layout_attr, shape_in, sizes_of, stored_as
from compiler.te.tensor import Tensor

__all__ = [
    "avg_pool2d_backward", "end_checkpoint", "max_pool2d_backward", "nll_loss_backward", "no_grad", "start_checkpoint",
    "take_backward",
]  # fmt: skip

_SECOND = refused("gradients are taken once")


# --------------------------------------------------------------------------------------- marks


def _same(use: Use) -> StructInfo:
    return use.info("input")


def _itself(input: Tensor) -> Tensor:
    return topi.identity(input)


def _through(use: Backward) -> Gradients:
    return (use.grad,)


@operator(
    "relax.grad.no_grad", infer=_same, te=_itself, pattern=OpPatternKind.ELEMWISE, flops=nothing, layout=follows,
    gradient=flat,
)  # fmt: skip
def no_grad(input: TensorArg) -> Expr:
    """Give a tensor that no gradient passes through."""


@operator(
    "relax.grad.start_checkpoint", infer=_same, te=_itself, pattern=OpPatternKind.ELEMWISE, flops=nothing,
    layout=follows, gradient=_through,
)  # fmt: skip
def start_checkpoint(input: TensorArg) -> Expr:
    """Mark the begin of a part whose values are recomputed for the gradients instead of kept."""


@operator(
    "relax.grad.end_checkpoint", infer=_same, te=_itself, pattern=OpPatternKind.ELEMWISE, flops=nothing, layout=follows,
    gradient=_through,
)  # fmt: skip
def end_checkpoint(input: TensorArg) -> Expr:
    """Mark where a part ends that `start_checkpoint` began."""


# --------------------------------------------------------------------------- losses and taking


def _like_second(name: str) -> Any:
    def rule(use: Use) -> StructInfo:
        use.tensor("output_grad")
        return use.tensor(name)

    return rule


def _nll_backward(
    output_grad: Tensor, predictions: Tensor, targets: Tensor, weights: Tensor | None = None, *, reduction: str,
    ignore_index: int,
) -> Tensor:  # fmt: skip
    return topi.nn.nll_loss_backward(output_grad, predictions, targets, weights, reduction, ignore_index)


@operator(
    "relax.grad.nll_loss_backward", infer=_like_second("predictions"), te=_nll_backward, pattern=OpPatternKind.OPAQUE,
    flops=per_input(1, 1), layout=as_written, gradient=_SECOND, precision="never",
)  # fmt: skip
def nll_loss_backward(
    output_grad: TensorArg, predictions: TensorArg, targets: TensorArg, weights: OptionalTensor = None,
    reduction: str = "mean", ignore_index: int = -100,
) -> Expr:  # fmt: skip
    """Take the gradient of the predictions of `nn.nll_loss`."""


@operator(
    "relax.grad.take_backward", infer=_like_second("x"),
    te=lambda output_grad, x, indices, axis: topi.take_backward(output_grad, x, indices, axis),
    pattern=OpPatternKind.OPAQUE, flops=per_input(1), layout=as_written, gradient=_SECOND,
)  # fmt: skip
def take_backward(output_grad: TensorArg, x: TensorArg, indices: TensorArg, axis: int | None = None) -> Expr:
    """Take the gradient of `x` in take(x, indices, axis): add slices where they were taken from."""


# ------------------------------------------------------------------------------------- pooling


def _pool_info(use: Use) -> StructInfo:
    """The data's, where the gradient has the shape of what the pool gives."""
    parts, out_parts = layout_attr(use, "layout", "NCHW"), layout_attr(use, "out_layout", "NCHW")
    size, grad = sizes_of(use, "data", parts), use.tensor("output_grad", len(out_parts))
    use.dtype("output_grad", "data")
    if size is not None and grad.dims is not None:
        for wanted, given in zip(shape_in(use, out_parts, pool_sizes(use, 2, size)), grad.dims):
            what = "the dimensions of the pool's result and of its gradient"
            use.check_equal(what, wanted, given, "data", "output_grad")
    return use.tensor("data")


def _max_pool_backward(
    output_grad: Tensor, data: Tensor, pool_size: Any, strides: Any, padding: Any, dilation: Any, ceil_mode: bool,
    count_include_pad: bool, layout: str, out_layout: str,
) -> Tensor:  # fmt: skip
    near = kernel_layout(layout, 2)
    grad, source = stored_as(output_grad, out_layout, near), stored_as(data, layout, near)
    found = topi.nn.max_pool_backward(grad, source, pool_size, strides, dilation, padding, ceil_mode, near)
    return stored_as(found, near, layout)


@operator(
    "relax.grad.max_pool2d_backward", infer=_pool_info, te=_max_pool_backward, pattern=OpPatternKind.OPAQUE,
    flops=per_input(4, 1), layout=as_written, gradient=_SECOND,
    canonical=pool_canonical("relax.grad.max_pool2d_backward", 2),
)  # fmt: skip
def max_pool2d_backward(
    output_grad: TensorArg, data: TensorArg, pool_size: Ints = (1, 1), strides: Ints = (1, 1),
    padding: Ints = (0, 0, 0, 0), dilation: Ints = (1, 1), ceil_mode: bool = False, count_include_pad: bool = False,
    layout: str = "NCHW", out_layout: str | None = None,
) -> Expr:  # fmt: skip
    """Take the gradient of the data of `nn.max_pool2d`.
    The first of a window's equal elements gets it."""


def _avg_pool_info(use: Use) -> StructInfo:
    use.check_float("data")
    return _pool_info(use)


def _avg_pool_backward(
    output_grad: Tensor, data: Tensor, pool_size: Any, strides: Any, padding: Any, dilation: Any, ceil_mode: bool,
    count_include_pad: bool, layout: str, out_layout: str,
) -> Tensor:  # fmt: skip
    near = kernel_layout(layout, 2)
    grad, source = stored_as(output_grad, out_layout, near), stored_as(data, layout, near)
    found = topi.nn.avg_pool_backward(
        grad, source, pool_size, strides, dilation, padding, ceil_mode, near, count_include_pad
    )
    return stored_as(found, near, layout)


@operator(
    "relax.grad.avg_pool2d_backward", infer=_avg_pool_info, te=_avg_pool_backward, pattern=OpPatternKind.OPAQUE,
    flops=per_input(4, 1), layout=as_written, gradient=_SECOND,
    canonical=pool_canonical("relax.grad.avg_pool2d_backward", 2),
)  # fmt: skip
def avg_pool2d_backward(
    output_grad: TensorArg, data: TensorArg, pool_size: Ints = (1, 1), strides: Ints = (1, 1),
    padding: Ints = (0, 0, 0, 0), dilation: Ints = (1, 1), ceil_mode: bool = False, count_include_pad: bool = False,
    layout: str = "NCHW", out_layout: str | None = None,
) -> Expr:  # fmt: skip
    """Take the gradient of the data of `nn.avg_pool2d`: each element of a window gets its part."""
