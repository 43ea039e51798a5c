"""Layouts by letters ("NCHW", "NHWC", "NCHW16c").

Sizes by letter, kernels on stored tensors, moving attributes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from compiler import topi
from compiler.errors import IRError
from compiler.relax.nodes import TensorStructInfo, info_of
from compiler.relax.nodes.dims import int64, text
from compiler.relax.op.core.layout import Layout, LayoutResult, LayoutRule, LayoutUse, as_written
from compiler.relax.op.core.use import Use, shown
from compiler.te.tensor import Tensor
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr

SPATIAL = {1: "W", 2: "HW", 3: "DHW"}
_PART = re.compile(r"([A-Z])|([1-9][0-9]*)([a-z])")

Parts = tuple[tuple[str, int], ...]


def parts_of(layout: str, letters: str) -> Parts:
    """The dimensions of `layout`: (letter, factor) each, factor 0 for a whole one.
    Raises IRError unless it is one of a tensor with the dimensions `letters`."""
    found: list[tuple[str, int]] = []
    end = 0
    while match := _PART.match(layout, end):
        end = match.end()
        found.append((match[1], 0) if match[1] else (match[3].upper(), int(match[2])))
    whole = sorted(letter for letter, factor in found if not factor)
    blocks = [letter for letter, factor in found if factor]
    if end != len(layout) or whole != sorted(letters) or len(set(blocks)) != len(blocks) or not {*blocks} <= {*letters}:
        raise IRError(f"{layout!r} is no layout of the dimensions {', '.join(letters)}")
    return tuple(found)


def layout_attr(use: Use, name: str, letters: str) -> Parts:
    """Return the attribute `name`, the layout of a tensor with the dimensions `letters`."""
    try:
        return parts_of(use.call.attrs[name], letters)
    except IRError as error:
        use.fail(f"{name}: {error.message}")


def sizes_of(use: Use, name: str, parts: Parts) -> dict[str, PrimExpr] | None:
    """The size of each dimension of the argument `name` by letter; None where they are not known."""
    info = use.tensor(name, len(parts))
    if info.dims is None:
        return None
    found: dict[str, PrimExpr] = {}
    for (letter, factor), size in zip(parts, info.dims):
        if factor and use.differ(size, int64(factor)):
            use.fail(f"{name} is {shown(info)}, but its layout has blocks of {factor} along {letter}")
        if not factor:
            block = next((f for other, f in parts if other == letter and f), 1)
            found[letter] = use.simplify(size * block)
    return found


def shape_in(use: Use, parts: Parts, sizes: Mapping[str, PrimExpr]) -> list[PrimExpr]:
    """The shape of a tensor of these sizes in a layout. Fails where a block does not divide its dimension."""
    blocks = {letter: factor for letter, factor in parts if factor}
    shape: list[PrimExpr] = []
    for letter, factor in parts:
        block = blocks.get(letter, 1)
        if factor:
            shape.append(int64(factor))
            continue
        known = ops.as_int(sizes[letter])
        if known is not None and known % block:
            use.fail(f"blocks of {block} along {letter} do not divide its size, {known}")
        shape.append(use.simplify(sizes[letter] // block) if block != 1 else sizes[letter])
    return shape


def plain(layout: str) -> str:
    """The layout without blocks: NCHW16c → NCHW."""
    return "".join(letter for letter in layout if letter.isupper())


def stored_as(tensor: Tensor, source: str, target: str) -> Tensor:
    """A te tensor in another layout; itself where it lies so."""
    return tensor if source == target else topi.layout_transform(tensor, source, target)


# ---------------------------------------------------------------------------------- attributes


def per_dimension(op: str, name: str, value: Any, rank: int) -> tuple[int, ...]:
    """Expand an attribute to one number for each of `rank` dimensions; a single number counts for all."""
    values = (value,) * rank if isinstance(value, int) else tuple(value)
    values = values * rank if len(values) == 1 else values
    if len(values) != rank:
        raise IRError(f"{op}: {name} is {value!r}, it must be one number or {rank}")
    return values


def around(op: str, value: Any, rank: int) -> tuple[int, ...]:
    """Expand padding to one number for each side: those before the dimensions, then those after.
    It is given as one number, one for each dimension, or one for each side."""
    values = (value,) if isinstance(value, int) else tuple(value)
    if len(values) == 1:
        return values * (2 * rank)
    if len(values) == rank:
        return values * 2
    if len(values) != 2 * rank:
        raise IRError(f"{op}: padding is {value!r}, it must be one number, {rank} or {2 * rank}")
    return values


def check_positive(use: Use, *names: str) -> None:
    """Fail where one of several numbers of an attribute is not positive."""
    for name in names:
        if any(number < 1 for number in use.call.attrs[name]):
            use.fail(f"{name} is {use.call.attrs[name]}, its numbers must be positive")


def places(use: Use, what: str, size: PrimExpr, span: PrimExpr, stride: int, padding: int) -> PrimExpr:
    """Count the places at which a window fits. Fails if there is none."""
    room = use.simplify(size + padding - span)
    if (ops.as_int(room) or 0) < 0:
        use.fail(f"a window of {text(span)} does not fit into the {what}, {text(size)}, with padding of {padding}")
    return use.simplify(room // stride + 1)


# ------------------------------------------------------------------------------------- layouts


def moved_name(written: str, stored: Layout) -> str:
    """The layout string of a tensor whose dimensions are `written` ("NCHW"), lying as `stored`."""
    return "".join(f"{factor}{written[axis].lower()}" if factor else written[axis] for axis, factor in stored.dims)


def _divides(info: object, stored: Layout) -> bool:
    """Whether blocks are known to divide the dimensions that they are of."""
    blocks = [(axis, factor) for axis, factor in stored.dims if factor]
    if not blocks:
        return True
    if not isinstance(info, TensorStructInfo) or info.dims is None:
        return False
    sizes = [(ops.as_int(info.dims[axis]), factor) for axis, factor in blocks]
    return all(size is not None and size % factor == 0 for size, factor in sizes)


def windows_layout(attribute: str) -> LayoutRule:
    """Let pooling lie as its data does: `attribute` and out_layout move with it.
    Window dimensions may not be blocked."""

    def rule(use: LayoutUse) -> LayoutResult:
        written, chosen = use.call.attrs[attribute], use.lies()
        same = use.call.attrs["out_layout"] == written
        if chosen is None or not same or plain(written) != written or _blocked(written, chosen):
            return as_written(use)
        name = moved_name(written, chosen)
        return LayoutResult((chosen,), (chosen,), {attribute: name, "out_layout": name})

    return rule


def _blocked(written: str, stored: Layout) -> Iterable[str]:
    return [written[axis] for axis, factor in stored.dims if factor and written[axis] in "DHW"]


def convolution_layout(name: str) -> LayoutRule:
    """Lay out a convolution as is asked for, by the names of data, kernel and result.
    Tensors without a request lie as their data does."""

    def rule(use: LayoutUse) -> LayoutResult:
        attrs = use.call.attrs
        written = (attrs["data_layout"], attrs["kernel_layout"], attrs["out_layout"])
        if any(plain(layout) != layout for layout in written):
            return as_written(use)
        asked = use.desired.get(name)
        if asked is None:
            return _as_data_lies(use, written)
        wanted = _asked(asked, written)
        data, kernel, out = (Layout.between(old, new) for old, new in zip(written, wanted))
        infos = (info_of(use.call.args[0]), info_of(use.call.args[1]), info_of(use.call))
        if not all(map(_divides, infos, (data, kernel, out))):
            return as_written(use)
        moved = dict(zip(("data_layout", "kernel_layout", "out_layout"), wanted))
        return LayoutResult((data, kernel), (out,), moved)

    return rule


def _asked(asked: Sequence[str], written: tuple[str, str, str]) -> tuple[str, str, str]:
    """Return the layouts of data, kernel and result.
    A kernel without a request keeps its own; a result follows the data."""
    return asked[0], asked[1] if len(asked) > 1 else written[1], asked[2] if len(asked) > 2 else asked[0]


def _as_data_lies(use: LayoutUse, written: tuple[str, str, str]) -> LayoutResult:
    chosen = use.permuted()
    if chosen is None or written[0] != written[2]:
        return as_written(use)
    name = moved_name(written[0], chosen)
    return LayoutResult((chosen, None), (chosen,), {"data_layout": name, "out_layout": name})
