"""Convolution, in several layouts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from compiler.errors import IRError
from compiler.te.operation import compute, reduce_axis
from compiler.te.operation import sum as te_sum
from compiler.te.tensor import Tensor, shape_text
from compiler.te.where import here
from compiler.tir import ops
from compiler.tir.nodes import IterVar, PrimExpr, Var
from compiler.topi.nn.pad import pad

Pair = int | Sequence[int]


def conv2d_nchw(
    data: Tensor, kernel: Tensor, stride: Pair = 1, padding: Pair | str = 0, dilation: Pair = 1,
    out_dtype: str | None = None,
) -> Tensor:  # fmt: skip
    """Convolution of images in NCHW layout.

    `data` is (N, C, H, W), `kernel` (K, C, R, S); the result is (N, K, OH, OW) of `out_dtype` (`data`'s
    unless given). `stride` and `dilation` are one number or (height, width); `padding` is one number,
    (height, width), (top, left, bottom, right), "VALID" or "SAME". Raises IRError when shapes do not fit.
    """
    return _conv("conv2d_nchw", data, kernel, ("NCHW", "OIHW"), (stride, padding, dilation), 1, out_dtype)


def conv2d_nhwc(
    data: Tensor, kernel: Tensor, stride: Pair = 1, padding: Pair | str = 0, dilation: Pair = 1,
    out_dtype: str | None = None,
) -> Tensor:  # fmt: skip
    """`conv2d_nchw` of `data` (N, H, W, C) with `kernel` (R, S, C, K), giving (N, OH, OW, K)."""
    return _conv("conv2d_nhwc", data, kernel, ("NHWC", "HWIO"), (stride, padding, dilation), 1, out_dtype)


def group_conv2d_nchw(
    data: Tensor, kernel: Tensor, stride: Pair = 1, padding: Pair | str = 0, dilation: Pair = 1, groups: int = 1,
    out_dtype: str | None = None,
) -> Tensor:  # fmt: skip
    """Return `conv2d_nchw` with filters (K, C / groups, R, S), where channels are in `groups`.
    The groups do not mix."""
    return _conv("group_conv2d_nchw", data, kernel, ("NCHW", "OIHW"), (stride, padding, dilation), groups, out_dtype)


def conv2d(
    input: Tensor, filter: Tensor, strides: Pair = 1, padding: Pair | str = 0, dilation: Pair = 1,
    data_layout: str = "NCHW", kernel_layout: str = "", out_dtype: str | None = None, groups: int = 1,
) -> Tensor:  # fmt: skip
    """Convolve in `data_layout` NCHW, NHWC or HWCN.

    The kernel is in `kernel_layout` (OIHW for NCHW, else HWIO). Raises IRError on another layout, or when shapes do not
    fit.
    """
    kernel_names = kernel_layout or {"NCHW": "OIHW"}.get(data_layout, "HWIO")
    name = f"{'group_' if groups != 1 else ''}conv2d_{data_layout.lower()}"
    return _conv(name, input, filter, (data_layout, kernel_names), (strides, padding, dilation), groups, out_dtype)


def conv1d(
    data: Tensor, kernel: Tensor, strides: Any = 1, padding: Any = "VALID", dilation: Any = 1, groups: int = 1,
    data_layout: str = "NCW", kernel_layout: str = "", out_dtype: str | None = None,
) -> Tensor:  # fmt: skip
    """Convolution along one dimension: `data` (N, C, W) with `kernel` (K, C / groups, S), or NWC with WIO.

    `padding` is one number, (before, after), "VALID" or "SAME". Raises IRError when shapes do not fit.
    """
    kernel_names = kernel_layout or {"NCW": "OIW"}.get(data_layout, "WIO")
    name = f"conv1d_{data_layout.lower()}"
    return _conv(name, data, kernel, (data_layout, kernel_names), (strides, padding, dilation), groups, out_dtype)


def conv1d_ncw(
    data: Tensor, kernel: Tensor, strides: Any = 1, padding: Any = "VALID", dilation: Any = 1,
    out_dtype: str | None = None,
) -> Tensor:  # fmt: skip
    """`conv1d` of `data` (N, C, W) with `kernel` (K, C, S)."""
    return conv1d(data, kernel, strides, padding, dilation, 1, "NCW", "OIW", out_dtype)


def conv1d_nwc(
    data: Tensor, kernel: Tensor, strides: Any = 1, padding: Any = "VALID", dilation: Any = 1,
    out_dtype: str | None = None,
) -> Tensor:  # fmt: skip
    """`conv1d` of `data` (N, W, C) with `kernel` (S, C, K)."""
    return conv1d(data, kernel, strides, padding, dilation, 1, "NWC", "WIO", out_dtype)


def group_conv1d_ncw(
    data: Tensor, kernel: Tensor, strides: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1,
    out_dtype: str | None = None,
) -> Tensor:  # fmt: skip
    """`conv1d_ncw` in `groups` that do not mix."""
    return conv1d(data, kernel, strides, padding, dilation, groups, "NCW", "OIW", out_dtype)


def group_conv2d_nhwc(
    Input: Tensor, Filter: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1,
    out_dtype: str | None = None,
) -> Tensor:  # fmt: skip
    """`conv2d_nhwc` in `groups` that do not mix: the kernel is (R, S, C / groups, K)."""
    moves = (stride, padding, dilation)
    return _conv("group_conv2d_nhwc", Input, Filter, ("NHWC", "HWIO"), moves, groups, out_dtype)


def conv2d_hwcn(
    Input: Tensor, Filter: Tensor, stride: Any, padding: Any, dilation: Any, out_dtype: str | None = None
) -> Tensor:
    """`conv2d_nchw` of `Input` (H, W, C, N) with `Filter` (R, S, C, K)."""
    return _conv("conv2d_hwcn", Input, Filter, ("HWCN", "HWIO"), (stride, padding, dilation), 1, out_dtype)


def conv3d_ncdhw(
    Input: Tensor, Filter: Tensor, stride: Any, padding: Any, dilation: Any, groups: int = 1,
    out_dtype: str | None = None,
) -> Tensor:  # fmt: skip
    """Convolution of volumes: `Input` (N, C, D, H, W) with `Filter` (K, C / groups, Q, R, S)."""
    moves = (stride, padding, dilation)
    return _conv("conv3d_ncdhw", Input, Filter, ("NCDHW", "OIDHW"), moves, groups, out_dtype)


def conv3d_ndhwc(
    Input: Tensor, Filter: Tensor, stride: Any, padding: Any, dilation: Any, groups: int = 1,
    out_dtype: str | None = None,
) -> Tensor:  # fmt: skip
    """Convolution of volumes: `Input` (N, D, H, W, C) with `Filter` (Q, R, S, C / groups, K)."""
    moves = (stride, padding, dilation)
    return _conv("conv3d_ndhwc", Input, Filter, ("NDHWC", "DHWIO"), moves, groups, out_dtype)


_KERNEL_OF = {"NCW": "OIW", "NCHW": "OIHW", "NCDHW": "OIDHW"}


def conv(
    inp: Tensor, filt: Tensor, stride: Any, padding: Any, dilation: Any, groups: int, data_layout: str,
    kernel_layout: str = "", out_dtype: str | None = None, out_layout: str = "",
) -> Tensor:  # fmt: skip
    """Convolution of 1 to 3 dimensions in any layout of the letters N, C, D, H, W.

    Kernels of O, I, D, H, W.

    The result lies as the data does, unless `out_layout` says otherwise.
    """
    spatial = "".join(name for name in data_layout if name in "DHW")
    weights = kernel_layout or _KERNEL_OF.get(data_layout, f"{spatial}IO")
    name = f"conv{len(spatial)}d_{data_layout.lower()}"
    op = f"group_{name}" if groups != 1 and len(spatial) == 2 else name
    return _conv(op, inp, filt, (data_layout, weights), (stride, padding, dilation), groups, out_dtype, out_layout)


def depthwise_conv2d_nchw(
    data: Tensor, kernel: Tensor, stride: Pair = 1, padding: Pair | str = 0, dilation: Pair = 1,
    out_dtype: str | None = None,
) -> Tensor:  # fmt: skip
    """Each channel of `data` (N, C, H, W) with its own M filters of `kernel` (C, M, R, S).

    Gives (N, C * M, OH, OW).
    """
    return _depthwise("depthwise_conv2d_nchw", data, kernel, ("NCHW", "OIHW"), (stride, padding, dilation), out_dtype)


def depthwise_conv2d_nhwc(
    data: Tensor, kernel: Tensor, stride: Pair = 1, padding: Pair | str = 0, dilation: Pair = 1,
    kernel_layout: str = "HWOI", out_dtype: str | None = None,
) -> Tensor:  # fmt: skip
    """Return `depthwise_conv2d_nchw` of `data` (N, H, W, C) and `kernel` (R, S, C, M): (N, OH, OW, C * M)."""
    layouts, window = ("NHWC", kernel_layout), (stride, padding, dilation)
    return _depthwise("depthwise_conv2d_nhwc", data, kernel, layouts, window, out_dtype)


@dataclass(frozen=True)
class _Window:
    """How a kernel moves over the data: one entry for each of the data's dimensions that `names` lists."""

    names: str
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    axes: tuple[IterVar, ...]
    out: dict[str, PrimExpr]

    def position(self, name: str, index: PrimExpr) -> PrimExpr:
        """Where along dimension `name` the value for output position `index` is read."""
        d = self.names.index(name)
        return index * self.strides[d] + self.axes[d].var * self.dilations[d]


Moves = tuple[Any, Any, Any]
Layouts = tuple[str, str]


def _conv(
    op: str, data: Tensor, kernel: Tensor, layouts: Layouts, moves: Moves, groups: int, out_dtype: str | None,
    out_layout: str = "",
) -> Tensor:  # fmt: skip
    layout, kernel_layout = layouts
    made = out_layout or layout
    if sorted(made) != sorted(layout):
        raise IRError(f"{op}: no result layout {made!r} for data {layout!r}" + here())
    size, kernel_size = _sizes(op, data, kernel, layouts)
    filters, kernel_channels = kernel_size["O"], kernel_size["I"]
    if groups < 1 or (ops.as_int(filters) or 0) % groups:
        raise IRError(f"{op}: {groups} groups do not divide {filters!r} filters" + here())
    if _known_different(size["C"], ops.mul(kernel_channels, groups)):
        raise IRError(
            f"{op}: data {shape_text(data.shape)} and kernel {shape_text(kernel.shape)} have "
            f"different numbers of channels" + (f" in {groups} groups" if groups > 1 else "") + here()
        )
    rc = reduce_axis((0, kernel_channels), name="rc")
    source, window = _moving(op, data, size, kernel_size, layout, moves)
    dtype = out_dtype if out_dtype is not None else data.dtype
    shape = {"N": size["N"], "C": filters, **window.out}

    def value(*indices: Var) -> PrimExpr:
        index = dict(zip(made, indices))
        channel: PrimExpr = rc.var
        if groups > 1:
            channel = ops.add(ops.mul(ops.floordiv(index["C"], ops.floordiv(filters, groups)), kernel_channels), rc.var)
        read = {name: window.position(name, index[name]) for name in window.names}
        tap = {name: axis.var for name, axis in zip(window.names, window.axes)}
        x = source(*({"N": index["N"], "C": channel, **read}[name] for name in layout))
        w = kernel(*({"O": index["C"], "I": rc.var, **tap}[name] for name in kernel_layout))
        result: PrimExpr = te_sum(x.astype(dtype) * w.astype(dtype), axis=[rc, *window.axes])
        return result

    return _convolved(op, [shape[name] for name in made], value, made)


def _depthwise(op: str, data: Tensor, kernel: Tensor, layouts: Layouts, moves: Moves, out_dtype: str | None) -> Tensor:
    layout, kernel_layout = layouts
    size, kernel_size = _sizes(op, data, kernel, layouts)
    if _known_different(size["C"], kernel_size["O"]):
        raise IRError(
            f"{op}: data {shape_text(data.shape)} and kernel {shape_text(kernel.shape)} have "
            "different numbers of channels" + here()
        )
    source, window = _moving(op, data, size, kernel_size, layout, moves)
    multiplier = kernel_size["I"]
    dtype = out_dtype if out_dtype is not None else data.dtype
    shape = {"N": size["N"], "C": ops.mul(size["C"], multiplier), **window.out}

    def value(*indices: Var) -> PrimExpr:
        index = dict(zip(layout, indices))
        one = ops.as_int(multiplier) == 1
        channel = index["C"] if one else ops.floordiv(index["C"], multiplier)
        nth = ops.const(0) if one else ops.floormod(index["C"], multiplier)
        read = {name: window.position(name, index[name]) for name in window.names}
        tap = {name: axis.var for name, axis in zip(window.names, window.axes)}
        x = source(*({"N": index["N"], "C": channel, **read}[name] for name in layout))
        w = kernel(*({"O": channel, "I": nth, **tap}[name] for name in kernel_layout))
        result: PrimExpr = te_sum(x.astype(dtype) * w.astype(dtype), axis=list(window.axes))
        return result

    return _convolved(op, [shape[name] for name in layout], value, layout)


_AXIS_NAMES = {"N": "nn", "C": "ff", "D": "zz", "H": "yy", "W": "xx"}


def _convolved(op: str, shape: Sequence[PrimExpr], value: Any, layout: str) -> Tensor:
    names = [_AXIS_NAMES[name] for name in layout]
    result: Tensor = compute(shape, value, name=op, tag=op, varargs_names=names)
    return result


def _sizes(op: str, data: Tensor, kernel: Tensor, layouts: Layouts) -> tuple[dict[str, PrimExpr], dict[str, PrimExpr]]:
    """The sizes of the data's and the kernel's dimensions by letter."""
    layout, kernel_layout = layouts
    spatial = set(layout) - set("NC")
    rank = len(layout)
    known = spatial in ({"D", "H", "W"}, {"H", "W"}, {"W"})
    if not known or set(layout) != spatial | set("NC") or len(set(layout)) != rank:
        raise IRError(f"{op}: no data layout {layout!r}" + here())
    if len(kernel_layout) != rank or set(kernel_layout) != spatial | set("OI"):
        raise IRError(f"{op}: no kernel layout {kernel_layout!r} for data {layout!r}" + here())
    if data.ndim != rank or kernel.ndim != rank:
        raise IRError(
            f"{op} needs {rank} dimensions, got data {shape_text(data.shape)} and kernel "
            f"{shape_text(kernel.shape)}" + here()
        )
    return dict(zip(layout, data.shape)), dict(zip(kernel_layout, kernel.shape))


def _moving(
    op: str, data: Tensor, size: dict[str, PrimExpr], kernel_size: dict[str, PrimExpr], layout: str, moves: Moves
) -> tuple[Tensor, _Window]:
    """The data, padded where asked, and how the kernel moves over it."""
    names = "DHW" if "D" in layout else "HW" if "H" in layout else "W"
    strides = positive_ints(moves[0], len(names), "stride")
    dilations = positive_ints(moves[2], len(names), "dilation")
    spans = [ops.add(ops.mul(ops.sub(kernel_size[n], 1), d), 1) for n, d in zip(names, dilations)]
    before, after = paddings(moves[1], spans)
    out = {
        name: out_size(op, size[name], span, stride, ops.add(b, a))
        for name, span, stride, b, a in zip(names, spans, strides, before, after)
    }
    source = data
    if not all(ops.is_const(p, 0) for p in (*before, *after)):
        zero = ops.const(0)
        first, last = dict(zip(names, before)), dict(zip(names, after))
        source = pad(data, [first.get(n, zero) for n in layout], [last.get(n, zero) for n in layout], name="pad_temp")
    axes = tuple(reduce_axis((0, kernel_size[n]), name={"D": "rz", "H": "ry", "W": "rx"}[n]) for n in names)
    return source, _Window(names, strides, dilations, axes, out)


def _known_different(a: PrimExpr, b: PrimExpr) -> bool:
    left, right = ops.as_int(a), ops.as_int(b)
    return left is not None and right is not None and left != right


_MANY = {1: "one", 2: "two", 3: "three", 4: "four", 6: "six"}


def positive_ints(value: Any, count: int, what: str) -> tuple[int, ...]:
    """`value`, one number for all of `count` dimensions or one for each. Raises IRError otherwise."""
    values = (value,) * count if isinstance(value, int) else tuple(value)
    if len(values) == 1:
        values *= count
    if len(values) != count or any(not isinstance(v, int) or v < 1 for v in values):
        raise IRError(f"{what} must be one or {count} positive integers, got {value!r}" + here())
    return values


def paddings(padding: Any, spans: Sequence[PrimExpr]) -> tuple[list[PrimExpr], list[PrimExpr]]:
    """Return what is added before and after each dimension that a window of `spans` moves over."""
    count = len(spans)
    if isinstance(padding, str):
        match padding.upper():
            case "VALID":
                return paddings(0, spans)
            case "SAME":
                totals = [ops.sub(span, 1) for span in spans]
                before = [ops.floordiv(total, 2) for total in totals]
                return before, [ops.sub(total, b) for total, b in zip(totals, before)]
    else:
        amounts = [padding] if isinstance(padding, int) else list(padding)
        if len(amounts) == 1:
            amounts = amounts * count
        if (len(amounts) == count and count > 1) or len(amounts) == 1:
            amounts = amounts * 2
        if len(amounts) == 2 * count and all(isinstance(a, int) and a >= 0 for a in amounts):
            return [ops.as_expr(a) for a in amounts[:count]], [ops.as_expr(a) for a in amounts[count:]]
    known = ", ".join(_MANY[n] for n in sorted({1, count}))
    raise IRError(f"padding {padding!r} is not {known} or {_MANY[2 * count]} integers, 'VALID' or 'SAME'" + here())


def out_size(op: str, size: PrimExpr, window: PrimExpr, stride: int, padding: PrimExpr) -> PrimExpr:
    """In how many places a window fits. Raises IRError when in none."""
    room = ops.sub(ops.add(size, padding), window)
    known = ops.as_int(room)
    if known is not None and known < 0:
        raise IRError(f"{op}: a window of {window!r} does not fit in {size!r} with padding {padding!r}" + here())
    return ops.add(ops.floordiv(room, stride), 1)
