"""Transposed convolutions: each input element adds its weighted kernel to the output."""

from __future__ import annotations

from typing import Any

from compiler.te.operation import compute, reduce_axis
from compiler.te.operation import sum as te_sum
from compiler.te.tensor import Tensor
from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.nodes import PrimExpr, Var
from compiler.topi.checks import described, differ, need_rank, refusal, simplified
from compiler.topi.nn.conv import paddings, positive_ints

_SPATIAL = {1: "W", 2: "HW", 3: "DHW"}


def conv1d_transpose_ncw(
    data: Tensor, kernel: Tensor, stride: Any, padding: Any, out_dtype: str | None, output_padding: Any
) -> Tensor:
    """`conv_transpose` along one dimension: `data` (N, C, W) with `kernel` (C, K, S)."""
    return conv_transpose("conv1d_transpose_ncw", data, kernel, stride, padding, output_padding, 1, 1, out_dtype)


def group_conv1d_transpose_ncw(
    data: Tensor, kernel: Tensor, stride: Any, padding: Any, out_dtype: str | None, output_padding: Any, groups: int
) -> Tensor:
    """`conv1d_transpose_ncw` in `groups` that do not mix."""
    return conv_transpose(
        "group_conv1d_transpose_ncw", data, kernel, stride, padding, output_padding, 1, groups, out_dtype
    )


def conv2d_transpose_nchw(
    Input: Tensor, Filter: Tensor, strides: Any, padding: Any, out_dtype: str | None, output_padding: Any
) -> Tensor:
    """`conv_transpose` of images: `Input` (N, C, H, W) with `Filter` (C, K, R, S)."""
    return conv_transpose("conv2d_transpose_nchw", Input, Filter, strides, padding, output_padding, 1, 1, out_dtype)


def group_conv2d_transpose_nchw(
    data: Tensor, kernel: Tensor, stride: Any, padding: Any, out_dtype: str | None, output_padding: Any, groups: int
) -> Tensor:
    """`conv2d_transpose_nchw` in `groups` that do not mix."""
    return conv_transpose(
        "group_conv2d_transpose_nchw", data, kernel, stride, padding, output_padding, 1, groups, out_dtype
    )


def conv3d_transpose_ncdhw(
    Input: Tensor, Filter: Tensor, strides: Any, padding: Any, out_dtype: str | None, output_padding: Any
) -> Tensor:
    """`conv_transpose` of volumes: `Input` (N, C, D, H, W) with `Filter` (C, K, Q, R, S)."""
    return conv_transpose("conv3d_transpose_ncdhw", Input, Filter, strides, padding, output_padding, 1, 1, out_dtype)


def group_conv3d_transpose_ncdhw(
    data: Tensor, kernel: Tensor, strides: Any, padding: Any, out_dtype: str | None, output_padding: Any, groups: int
) -> Tensor:
    """`conv3d_transpose_ncdhw` in `groups` that do not mix."""
    return conv_transpose(
        "group_conv3d_transpose_ncdhw", data, kernel, strides, padding, output_padding, 1, groups, out_dtype
    )


def conv_transpose(
    op: str, data: Tensor, kernel: Tensor, strides: Any = 1, padding: Any = 0, output_padding: Any = 0,
    dilation: Any = 1, groups: int = 1, out_dtype: str | None = None, data_layout: str = "", kernel_layout: str = "",
) -> Tensor:  # fmt: skip
    """The transposed convolution of 1 to 3 spatial dimensions.

    A dimension of size n becomes (n - 1) * stride - padding before and after + (kernel - 1) * dilation + 1 +
    output_padding. Layouts are NC(D)(H)W and IO(D)(H)W unless given: letters in any order; I is the number of
    channels, O the filters in a group. Raises IRError when shapes do not fit.
    """
    rank = data.ndim - 2
    if rank not in _SPATIAL:
        raise refusal(op, f"{described(data)} needs 3 to 5 dimensions")
    need_rank(op, kernel, data.ndim)
    names = _SPATIAL[rank]
    layout, weights = data_layout or "NC" + names, kernel_layout or "IO" + names
    if sorted(layout) != sorted("NC" + names) or sorted(weights) != sorted("IO" + names):
        raise refusal(op, f"layouts {layout!r} and {weights!r} do not fit {rank} spatial dimensions")
    size, taps = dict(zip(layout, data.shape)), dict(zip(weights, kernel.shape))
    known = ops.as_int(size["C"])
    if groups < 1 or differ(size["C"], taps["I"]) or (known is not None and known % groups):
        raise refusal(op, f"{described(data, kernel)} in {groups} groups: the numbers of channels do not fit")
    moves, gaps = positive_ints(strides, rank, "strides"), positive_ints(dilation, rank, "dilation")
    extra = (output_padding,) * rank if isinstance(output_padding, int) else tuple(output_padding)
    if len(extra) != rank or any(not 0 <= e < max(s, d) for e, s, d in zip(extra, moves, gaps)):
        raise refusal(op, f"output_padding {output_padding!r} must be less than strides {moves!r} or dilation {gaps!r}")
    spans = [ops.add(ops.mul(ops.sub(taps[n], 1), d), 1) for n, d in zip(names, gaps)]
    before, after = paddings(padding, spans)
    out: dict[str, PrimExpr] = {"N": size["N"], "C": simplified(ops.mul(taps["O"], groups))}
    for n, span, s, b, a, e in zip(names, spans, moves, before, after, extra):
        grown = ops.sub(ops.add(ops.mul(ops.sub(size[n], 1), s), ops.add(span, e)), ops.add(b, a))
        out[n] = simplified(grown)
        if (ops.as_int(out[n]) or 0) < 0:
            raise refusal(op, f"padding {padding!r} leaves nothing of {described(data)} with {described(kernel)}")
    dtype = data.dtype if out_dtype in (None, "", "void") else out_dtype
    assert dtype is not None
    per_group = ops.floordiv(size["C"], groups)
    rc = reduce_axis((0, per_group), name="rc")
    axes = {n: reduce_axis((0, taps[n]), name=f"r{n.lower()}") for n in names}

    def value(*indices: Var) -> PrimExpr:
        index = dict(zip(layout, indices))
        group = ops.floordiv(index["C"], taps["O"])
        channel: PrimExpr = rc.var if groups == 1 else ops.add(ops.mul(group, per_group), rc.var)
        inside: list[PrimExpr] = []
        read: dict[str, PrimExpr] = {"N": index["N"], "C": channel}
        tap: dict[str, PrimExpr] = {
            "I": channel, "O": index["C"] if groups == 1 else ops.floormod(index["C"], taps["O"])
        }  # fmt: skip
        for n, s, d, b in zip(names, moves, gaps, before):
            # the input that stands at this output less the tap's offset, where there is one
            place = ops.sub(ops.add(index[n], b), ops.mul(axes[n].var, d))
            inside += [ops.greater_equal(place, 0), ops.less(place, ops.mul(size[n], s))]
            if s > 1:
                inside.append(ops.equal(ops.floormod(place, s), 0))
            read[n], tap[n] = ops.floordiv(place, s), axes[n].var
        x = data(*(read[n] for n in layout)).astype(dtype)
        w = kernel(*(tap[n] for n in weights)).astype(dtype)
        term = intrin.if_then_else(ops.logical_and(*inside), x, ops.const(0, dtype)) * w
        result: PrimExpr = te_sum(term, axis=[rc, *axes.values()])
        return result

    result: Tensor = compute([out[n] for n in layout], value, name=op, tag=op)
    return result
