"""Operators of images and volumes: resizing, and sampling at the places of a grid."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from compiler import topi
from compiler.errors import IRError
from compiler.relax.nodes import Call, Expr, StructInfo
from compiler.relax.nodes.dims import int64
from compiler.relax.op.core.layout import LayoutResult, LayoutRule, LayoutUse, as_written
from compiler.relax.op.core.params import OptionalDtype, ShapeArg, TensorArg
from compiler.relax.op.core.registry import OpPatternKind, operator
from compiler.relax.op.core.rules import tensor
from compiler.relax.op.core.use import Use
from compiler.relax.op.core.work import per_output
from compiler.relax.op.gradients import window as slopes
from compiler.relax.op.nn.stored import layout_attr, moved_name, plain, shape_in, sizes_of
from compiler.te.tensor import Tensor
from compiler.tir import ops
from compiler.topi.image.resize import METHODS, ROUNDINGS, TRANSFORMATIONS

__all__ = ["affine_grid", "grid_sample", "resize2d", "resize3d"]


def _one_of(use: Use, name: str, wanted: tuple[str, ...]) -> None:
    given = use.call.attrs[name]
    if given not in wanted:
        use.fail(f"{name} is {given!r}, it must be one of {', '.join(map(repr, wanted))}")


def _whole_roi(op: str, rank: int) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """The region as a number for the start, then the end, of each dimension."""

    def complete(attrs: dict[str, Any]) -> dict[str, Any]:
        given = attrs["roi"]
        values = (0.0,) if given is None else given if isinstance(given, tuple) else (given,)
        values = values * (2 * rank) if len(values) == 1 else values
        if len(values) != 2 * rank or not all(isinstance(v, int | float) for v in values):
            raise IRError(f"{op}: roi is {given!r}, it must be one number or {2 * rank}")
        return attrs | {"roi": tuple(map(float, values))}

    return complete


def _resize_info(letters: str) -> Callable[[Use], StructInfo]:
    rank = len(letters)

    def rule(use: Use) -> StructInfo:
        parts = layout_attr(use, "layout", "NC" + letters)
        _one_of(use, "method", METHODS)
        _one_of(use, "coordinate_transformation_mode", TRANSFORMATIONS)
        _one_of(use, "rounding_method", ROUNDINGS)
        data, wanted, size = use.tensor("data"), use.shape("size"), sizes_of(use, "data", parts)
        if wanted.ndim not in (-1, 1, rank):
            use.fail(f"size has {wanted.ndim} numbers, it must have {rank}, or one for all")
        dtype = use.call.attrs["out_dtype"] or data.dtype
        if size is None or wanted.values is None:
            return tensor(None, dtype, len(parts), data.vdevice)
        new = wanted.values * rank if len(wanted.values) == 1 else wanted.values
        if any((ops.as_int(number) or 1) < 1 or ops.as_int(number) == 0 for number in new):
            use.fail("the numbers of size must be positive")
        return tensor(shape_in(use, parts, size | dict(zip(letters, new))), dtype, vdevice=data.vdevice)

    return rule


def _resize_layout(letters: str) -> LayoutRule:
    """Images lie as they do, as long as their own dimensions keep their order."""

    def rule(use: LayoutUse) -> LayoutResult:
        chosen, written = use.permuted(), use.call.attrs["layout"]
        if chosen is None or plain(written) != written:
            return as_written(use)
        name = moved_name(written, chosen)
        if [letter for letter in name if letter in letters] != list(letters):
            return as_written(use)
        return LayoutResult((chosen, *[None] * (len(use.inputs) - 1)), (chosen,), {"layout": name})

    return rule


def _resize_form(kernel: Callable[..., Tensor], rank: int) -> Callable[..., Tensor]:
    def form(
        data: Tensor, size: Any, roi: Any, layout: str, method: str, coordinate_transformation_mode: str,
        rounding_method: str, cubic_alpha: float, cubic_exclude: int, extrapolation_value: float, out_dtype: str,
    ) -> Tensor:  # fmt: skip
        sizes = list(size) * rank if len(size) == 1 else list(size)
        return kernel(
            data, roi, sizes, layout, method, coordinate_transformation_mode, rounding_method, cubic_alpha,
            cubic_exclude, extrapolation_value, out_dtype or None,
        )  # fmt: skip

    return form


def _resize(
    name: str, letters: str, kernel: Callable[..., Tensor]
) -> Callable[[Callable[..., Expr]], Callable[..., Call]]:
    return operator(
        f"relax.image.{name}", infer=_resize_info(letters), te=_resize_form(kernel, len(letters)),
        pattern=OpPatternKind.INJECTIVE, flops=per_output(8), layout=_resize_layout(letters), gradient=slopes.resize,
        canonical=_whole_roi(f"relax.image.{name}", len(letters)),
    )  # fmt: skip


@_resize("resize2d", "HW", topi.image.resize2d)
def resize2d(
    data: TensorArg, size: ShapeArg, roi: Any = None, layout: str = "NCHW", method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel", rounding_method: str = "round", cubic_alpha: float = -0.75,
    cubic_exclude: int = 0, extrapolation_value: float = 0.0, out_dtype: OptionalDtype = None,
) -> Expr:  # fmt: skip
    """Give images the height and width `size`, by ONNX's rules of interpolation.

    `method` is "nearest_neighbor", "linear" or "cubic". `coordinate_transformation_mode` maps an element of the result
    to a place in the image: "half_pixel", "align_corners", "asymmetric", …; "tf_crop_and_resize" takes the part `roi`.
    """


@_resize("resize3d", "DHW", topi.image.resize3d)
def resize3d(
    data: TensorArg, size: ShapeArg, roi: Any = None, layout: str = "NCDHW", method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel", rounding_method: str = "", cubic_alpha: float = -0.75,
    cubic_exclude: int = 0, extrapolation_value: float = 0.0, out_dtype: OptionalDtype = None,
) -> Expr:  # fmt: skip
    """Give volumes the depth, height and width `size`, as `resize2d` images."""


# -------------------------------------------------------------------------------- grid_sample


def _sample_info(use: Use) -> StructInfo:
    _one_of(use, "method", ("bilinear", "nearest", "bicubic"))
    _one_of(use, "layout", ("NCHW", "NCDHW"))
    _one_of(use, "padding_mode", ("zeros", "border", "reflection"))
    rank = len(use.call.attrs["layout"]) - 2
    data, grid = use.tensor("data", rank + 2), use.tensor("grid", rank + 2)
    use.check_float("data", "grid")
    if use.call.attrs["method"] == "bicubic" and rank != 2:
        use.fail("bicubic needs images, the layout NCHW")
    device = use.vdevice("data", "grid")
    if data.dims is not None and grid.dims is not None:
        use.check_equal("the batches of data and grid", data.dims[0], grid.dims[0], "data", "grid")
    if grid.dims is not None and use.differ(grid.dims[-1], grid.dims[-1] * 0 + rank):
        use.fail(f"the last dimension of grid must be {rank}, a number for each of the data's")
    if data.dims is None or grid.dims is None:
        return tensor(None, data.dtype, rank + 2, device)
    return tensor([*data.dims[:2], *grid.dims[1:-1]], data.dtype, vdevice=device)


def _grid_sample(
    data: Tensor, grid: Tensor, method: str, layout: str, padding_mode: str, align_corners: bool
) -> Tensor:
    last = grid.ndim - 1
    places = topi.transpose(grid, [0, last, *range(1, last)])
    return topi.image.grid_sample(data, places, method, layout, padding_mode, align_corners)


@operator(
    "relax.image.grid_sample", infer=_sample_info, te=_grid_sample, pattern=OpPatternKind.OPAQUE, flops=per_output(16),
    layout=as_written, gradient=slopes.grid_sample,
)  # fmt: skip
def grid_sample(
    data: TensorArg, grid: TensorArg, method: str = "bilinear", layout: str = "NCHW", padding_mode: str = "zeros",
    align_corners: bool = False,
) -> Expr:  # fmt: skip
    """Read images at the places of `grid` (N, height, width, 2): x and y from -1 to 1.

    Outside, `padding_mode` "zeros" reads 0, "border" the nearest pixel, "reflection" a mirrored one. With
    `align_corners` -1 and 1 are the middles of the outer pixels, otherwise their outer edges.
    """


# -------------------------------------------------------------------------------- affine_grid


def _affine_info(use: Use) -> StructInfo:
    data, size = use.tensor("data", 3), use.shape("size")
    use.check_float("data")
    rank = size.ndim
    if rank == 1:
        rank = 2
    if rank not in (-1, 2, 3):
        use.fail(f"size has {size.ndim} numbers, it must be (height, width) or (depth, height, width)")
    if data.dims is not None and rank != -1:
        for wanted, known in zip((int64(rank), int64(rank + 1)), data.dims[1:]):
            use.check_equal(f"the dimensions of data and those of {rank} by {rank + 1} matrices", wanted, known, "data")
    if data.dims is None or size.values is None:
        return tensor(None, data.dtype, -1 if rank == -1 else rank + 2, data.vdevice)
    sizes = size.values * 2 if len(size.values) == 1 else size.values
    return tensor([data.dims[0], int64(rank), *sizes], data.dtype, vdevice=data.vdevice)


def _affine_grid(data: Tensor, size: Any, align_corners: bool) -> Tensor:
    return topi.image.affine_grid(data, list(size) * 2 if len(size) == 1 else size, align_corners)


@operator(
    "relax.image.affine_grid", infer=_affine_info, te=_affine_grid, pattern=OpPatternKind.OPAQUE, flops=per_output(6),
    layout=as_written, gradient=slopes.affine_grid,
)  # fmt: skip
def affine_grid(data: TensorArg, size: ShapeArg, align_corners: bool = True) -> Expr:
    """Give the points, from -1 to 1, to which affine matrices map the pixels of `size`.

    Matrices (N, 2, 3) give (N, 2, height, width), x first; (N, 3, 4), for volumes, (N, 3, depth, height, width).
    With `align_corners` the outer pixels stand at -1 and 1, else their edges do.
    """
