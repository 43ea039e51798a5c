"""Operators of neural networks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compiler.faces.relay.op.values import emit, number, numbers, rank, shape, tensor
from compiler.faces.relay.table import In, operator
from compiler.relax import op as R
from compiler.relax.nodes import const

# ----------------------------------------------------------------------------------- products


@operator("nn.dense")
def dense(data: In, weight: In, units: int | None = None, out_dtype: str = "") -> Any:
    """The product of `data` and `weight`, which is (units, inputs)."""
    return R.matmul(data, R.permute_dims(weight, [1, 0]), out_dtype or None)


@operator("nn.matmul")
def matmul(
    tensor_a: In, tensor_b: In, units: int | None = None, out_dtype: str = "", transpose_a: bool = False,
    transpose_b: bool = False,
) -> Any:  # fmt: skip
    """The product of two matrices, each transposed first where that is said."""
    return R.matmul(_turned(tensor_a, transpose_a), _turned(tensor_b, transpose_b), out_dtype or None)


@operator("nn.batch_matmul")
def batch_matmul(
    tensor_a: In, tensor_b: In, out_dtype: str = "", transpose_a: bool = False, transpose_b: bool = True
) -> Any:
    """Return the products of matrices, one for each of a batch.
    The second is (batch, columns, inner) unless told otherwise."""
    return R.matmul(_turned(tensor_a, transpose_a), _turned(tensor_b, transpose_b), out_dtype or None)


def _turned(value: Any, turn: bool) -> Any:
    ndim = rank(value, "a product")
    return R.permute_dims(value, [*range(ndim - 2), ndim - 1, ndim - 2]) if turn else value


@operator("nn.bias_add")
def bias_add(data: In, bias: In, axis: int = 1) -> Any:
    """`data` + `bias`, which lies along an axis."""
    return R.add(data, _along(bias, rank(data, "bias_add"), axis))


def _along(value: Any, ndim: int, axis: int) -> Any:
    """A vector in a shape that broadcasts along an axis."""
    (size,) = shape(value, "bias_add")
    behind = ndim - 1 - axis % ndim
    return value if behind == 0 else R.reshape(value, (size, *[1] * behind))


# ------------------------------------------------------------------------------- convolutions


def _convolution(dims: int, transposed: bool, layout: str, kernel_layout: str) -> None:
    name = f"conv{dims}d" + ("_transpose" if transposed else "")
    rule = getattr(R.nn, name)

    def body(
        data: In, weight: In, strides: Any = (1,) * dims, padding: Any = (0,) * dims, dilation: Any = (1,) * dims,
        groups: int = 1, channels: int | None = None, kernel_size: Any = None, data_layout: str = layout,
        kernel_layout: str = kernel_layout, out_layout: str = "", out_dtype: str = "",
    ) -> Any:  # fmt: skip
        return rule(
            data, weight, _each(strides), _each(padding), dilation=_each(dilation), groups=groups,
            data_layout=data_layout, kernel_layout=kernel_layout, out_layout=out_layout or None,
            out_dtype=out_dtype or None,
        )  # fmt: skip

    def turned(
        data: In, weight: In, strides: Any = (1,) * dims, padding: Any = (0,) * dims, dilation: Any = (1,) * dims,
        channels: int | None = None, kernel_size: Any = None, groups: int = 1, data_layout: str = layout,
        kernel_layout: str = kernel_layout, out_layout: str = "", output_padding: Any = (0,) * dims,
        out_dtype: str = "",
    ) -> Any:  # fmt: skip
        return rule(
            data, weight, _each(strides), _each(padding), _each(output_padding), _each(dilation), groups,
            data_layout=data_layout, kernel_layout=kernel_layout, out_layout=out_layout or None,
            out_dtype=out_dtype or None,
        )  # fmt: skip

    made = turned if transposed else body
    made.__doc__ = f"A {'transposed ' if transposed else ''}convolution over {dims} dimensions."
    operator(f"nn.{name}")(made)


def _each(value: Any) -> Any:
    return list(value) if isinstance(value, Sequence) else value


for _dims, _layout, _kernel in ((1, "NCW", "W"), (2, "NCHW", "HW"), (3, "NCDHW", "DHW")):
    _convolution(_dims, False, _layout, f"OI{_kernel}")
    _convolution(_dims, True, _layout, f"IO{_kernel}")


# -------------------------------------------------------------------------------- activations


def _activation(name: str, known: str) -> None:
    def body(data: In) -> Any:
        return getattr(R.nn, known)(data)

    body.__doc__ = f"relax's `nn.{known}` of each element."
    operator(f"nn.{name}")(body)


for _name, _known in (("relu", "relu"), ("fast_gelu", "gelu_tanh"), ("gelu", "gelu"), ("silu", "silu")):
    _activation(_name, _known)


@operator("nn.softmax")
def softmax(data: In, axis: int = -1) -> Any:
    """Exponentials along an axis, divided by their sum."""
    return R.nn.softmax(data, axis)


@operator("nn.fast_softmax")
def fast_softmax(data: In, axis: int = -1) -> Any:
    """Do what `softmax` does."""
    return R.nn.softmax(data, axis)


@operator("nn.log_softmax")
def log_softmax(data: In, axis: int = -1) -> Any:
    """The logarithm of the softmax."""
    return R.nn.log_softmax(data, axis)


@operator("nn.leaky_relu")
def leaky_relu(data: In, alpha: float = 0.01) -> Any:
    """Elements, those below 0 multiplied by `alpha`."""
    return R.nn.leakyrelu(data, alpha)


@operator("nn.prelu")
def prelu(data: In, alpha: In, axis: int = 1) -> Any:
    """Elements, those below 0 multiplied by `alpha` of their channel."""
    return R.nn.prelu(data, alpha, axis)


@operator("nn.dropout", results=lambda **_: None)
def dropout(data: In, rate: float = 0.5) -> Any:
    """The elements; nothing is dropped when a network is only used."""
    return data


# -------------------------------------------------------------------------------------- norms


@operator("nn.batch_norm", results=3)
def batch_norm(
    data: In, gamma: In, beta: In, moving_mean: In, moving_var: In, axis: int = 1, epsilon: float = 1e-5,
    center: bool = True, scale: bool = True,
) -> Any:  # fmt: skip
    """Scale channels to mean 0 and variance 1 by learned statistics.
    The moving mean and variance come second and third, unchanged."""
    return R.nn.batch_norm(data, gamma, beta, moving_mean, moving_var, axis, epsilon, center, scale, training=False)


@operator("nn.layer_norm")
def layer_norm(
    data: In, gamma: In, beta: In, axis: int = -1, epsilon: float = 1e-5, center: bool = True, scale: bool = True
) -> Any:
    """Each row along an axis brought to the mean 0 and variance 1."""
    return R.nn.layer_norm(data, gamma, beta, [axis], epsilon, center, scale)


@operator("nn.instance_norm")
def instance_norm(
    data: In, gamma: In, beta: In, axis: int = 1, epsilon: float = 1e-5, center: bool = True, scale: bool = True
) -> Any:
    """Each channel of each sample brought to the mean 0 and variance 1."""
    ndim = rank(data, "instance_norm")
    others = [at for at in range(1, ndim) if at != axis % ndim]
    return R.nn.instance_norm(data, gamma, beta, axis, others, epsilon, center, scale)


@operator("nn.group_norm")
def group_norm(
    data: In, gamma: In, beta: In, num_groups: int, axis: int = 1, epsilon: float = 1e-5, center: bool = True,
    scale: bool = True,
) -> Any:  # fmt: skip
    """Each group of channels of each sample brought to the mean 0 and variance 1."""
    ndim = rank(data, "group_norm")
    others = [at for at in range(1, ndim) if at != axis % ndim]
    return R.nn.group_norm(data, gamma, beta, num_groups, axis, others, epsilon, center, scale)


@operator("nn.l2_normalize")
def l2_normalize(data: In, eps: float, axis: Any = None) -> Any:
    """Elements divided by the length of the vector along `axis`."""
    total = R.sum(R.multiply(data, data), _each(axis) if axis is not None else None, True)
    return R.divide(data, R.sqrt(R.maximum(total, _scalar(data, eps))))


@operator("nn.lrn")
def lrn(data: In, size: int = 5, axis: int = 1, bias: float = 2, alpha: float = 1e-5, beta: float = 0.75) -> Any:
    """Elements divided by a power of the squares of their neighbours along an axis."""
    ndim, half = rank(data, "lrn"), size // 2
    square = emit(R.multiply(data, data))
    width = [half if at // 2 == axis % ndim else 0 for at in range(2 * ndim)]
    padded = emit(R.nn.pad(square, width))
    count = shape(data, "lrn")[axis]
    total: Any = None
    for start in range(size):
        part = emit(R.strided_slice(padded, [axis % ndim], [start], [start + count]))
        total = part if total is None else emit(R.add(total, part))
    scale = R.add(R.multiply(total, _scalar(data, alpha / size)), _scalar(data, bias))
    return R.divide(data, R.power(scale, _scalar(data, beta)))


def _scalar(data: Any, value: float) -> Any:
    return const(value, tensor(data, "this operator").dtype or "float32")


# ----------------------------------------------------------------------------- shapes and pads


@operator("nn.batch_flatten")
def batch_flatten(data: In) -> Any:
    """All axes but the first as one."""
    first, *rest = shape(data, "batch_flatten")
    size: Any = 1
    for item in rest:
        size = size * item
    return R.reshape(data, (first, size))


@operator("nn.pad")
def pad(data: In, pad_width: Any, pad_value: In = 0, pad_mode: str = "constant") -> Any:
    """`pad_width`: for each axis, how much is added before and behind."""
    widths = [int(item) for pair in pad_width for item in (pair if isinstance(pair, Sequence) else (pair, pair))]
    return R.nn.pad(data, widths, pad_mode, number(pad_value, "nn.pad"))


@operator("nn.mirror_pad")
def mirror_pad(data: In, pad_width: Any, mode: str = "SYMMETRIC") -> Any:
    """Borders that mirror what is inside; "REFLECT" leaves out the outermost elements."""
    found = data
    for axis, (before, behind) in enumerate(pad_width):
        found = _mirrored(found, axis, int(before), int(behind), 0 if mode == "SYMMETRIC" else 1)
    return found


def _mirrored(data: Any, axis: int, before: int, behind: int, skip: int) -> Any:
    size = shape(data, "mirror_pad")[axis]
    parts = []
    if before:
        parts.append(R.flip(R.strided_slice(data, [axis], [skip], [skip + before]), axis))
    parts.append(data)
    if behind:
        parts.append(R.flip(R.strided_slice(data, [axis], [size - skip - behind], [size - skip]), axis))
    return emit(R.concat([emit(part) for part in parts], axis)) if len(parts) > 1 else data


@operator("nn.depth_to_space")
def depth_to_space(data: In, block_size: int, layout: str = "NCHW", mode: str = "DCR") -> Any:
    """Blocks of channels laid out in space.
    `mode`: the block's axes before the channels (DCR) or behind (CRD)."""
    batch, channels, height, width = _nchw(data, layout, "depth_to_space")
    b, inner = block_size, channels // block_size**2
    plain = data if layout == "NCHW" else R.permute_dims(data, [0, 3, 1, 2])
    if mode == "DCR":
        split, order = (batch, b, b, inner, height, width), [0, 3, 4, 1, 5, 2]
    else:
        split, order = (batch, inner, b, b, height, width), [0, 1, 4, 2, 5, 3]
    made = R.reshape(R.permute_dims(R.reshape(plain, split), order), (batch, inner, height * b, width * b))
    return made if layout == "NCHW" else R.permute_dims(made, [0, 2, 3, 1])


@operator("nn.space_to_depth")
def space_to_depth(data: In, block_size: int, layout: str = "NCHW") -> Any:
    """Blocks of space as channels."""
    batch, channels, height, width = _nchw(data, layout, "space_to_depth")
    b = block_size
    plain = data if layout == "NCHW" else R.permute_dims(data, [0, 3, 1, 2])
    split = R.reshape(plain, (batch, channels, height // b, b, width // b, b))
    made = R.reshape(R.permute_dims(split, [0, 3, 5, 1, 2, 4]), (batch, channels * b * b, height // b, width // b))
    return made if layout == "NCHW" else R.permute_dims(made, [0, 2, 3, 1])


def _nchw(data: Any, layout: str, name: str) -> list[Any]:
    sizes = shape(data, name)
    return [sizes[layout.index(letter)] for letter in "NCHW"]


# ------------------------------------------------------------------------------------- losses


@operator("nn.cross_entropy")
def cross_entropy(predictions: In, targets: In) -> Any:
    """The mean over the batch of -sum(targets · log(predictions))."""
    batch = shape(predictions, "cross_entropy")[0]
    total = R.sum(R.multiply(R.log(predictions), targets))
    return R.divide(R.negative(total), _scalar(predictions, float(batch)))


@operator("nn.cross_entropy_with_logits")
def cross_entropy_with_logits(predictions: In, targets: In) -> Any:
    """The mean over the batch of -sum(targets · predictions)."""
    batch = shape(predictions, "cross_entropy_with_logits")[0]
    total = R.sum(R.multiply(predictions, targets))
    return R.divide(R.negative(total), _scalar(predictions, float(batch)))


@operator("nn.nll_loss")
def nll_loss(predictions: In, targets: In, weights: In, reduction: str = "mean", ignore_index: int = -100) -> Any:
    """The negative log likelihood of the targets."""
    return R.nn.nll_loss(predictions, targets, weights, reduction, ignore_index)


@operator("nn.dilate")
def dilate(data: In, strides: Any, dilation_value: float = 0.0) -> Any:
    """`strides` - 1 further elements between any two along each axis."""
    found, steps = data, numbers(strides, "dilate") or []
    for axis, step in enumerate(steps):
        if step > 1:
            sizes = shape(found, "dilate")
            apart = emit(R.expand_dims(found, axis + 1))
            width = [0] * (2 * len(sizes) + 2)
            width[2 * (axis + 1) + 1] = step - 1
            padded = R.nn.pad(apart, width, "constant", dilation_value)
            joined = emit(R.reshape(padded, (*sizes[:axis], sizes[axis] * step, *sizes[axis + 1 :])))
            found = emit(R.strided_slice(joined, [axis], [0], [sizes[axis] * step - (step - 1)]))
    return found
