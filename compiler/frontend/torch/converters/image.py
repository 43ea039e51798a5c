"""Images and volumes in other sizes."""

from __future__ import annotations

from typing import Any

from compiler.frontend.torch.conversion import Conversion
from compiler.frontend.torch.table import converts
from compiler.relax import op

_PADDING = {0: "zeros", 1: "border", 2: "reflection"}
_METHODS = {0: "bilinear", 1: "nearest", 2: "bicubic"}


def _resized(c: Conversion, x: Any, method: str, align: bool) -> Any:
    rank = c.ndim(x) - 2
    size = c.out_shape()[2:]
    if method == "nearest":
        how = {"method": "nearest_neighbor", "coordinate_transformation_mode": "asymmetric", "rounding_method": "floor"}
    else:
        places = "align_corners" if align else "half_pixel"
        how = {"method": method, "coordinate_transformation_mode": places}
    if rank == 1:
        batch, channels, width = c.shape(x)
        flat = c.reshaped(x, [batch, channels, 1, width])
        return c.reshaped(op.image.resize2d(flat, [1, size[0]], **how), c.out_shape())
    if rank == 2:
        return op.image.resize2d(x, list(size), **how)
    return op.image.resize3d(x, list(size), **how)


def _nearest(name: str, own: str) -> None:
    """Torch calls the data `self` in the one form and `input` in the other."""
    if own == "self":

        @converts(f"aten.{name}.default")
        def of_self(c: Conversion, self: Any) -> Any:
            return _resized(c, self, "nearest", False)
    else:

        @converts(f"aten.{name}.vec")
        def of_input(c: Conversion, input: Any) -> Any:
            return _resized(c, input, "nearest", False)


def _smooth(name: str, method: str) -> None:
    @converts(f"aten.{name}.default")
    def of_self(c: Conversion, self: Any, align_corners: Any) -> Any:
        return _resized(c, self, method, align_corners)

    @converts(f"aten.{name}.vec")
    def of_input(c: Conversion, input: Any, align_corners: Any) -> Any:
        return _resized(c, input, method, align_corners)


for _rank in (1, 2, 3):
    _nearest(f"upsample_nearest{_rank}d", "self")
    _nearest(f"upsample_nearest{_rank}d", "input")
_smooth("upsample_linear1d", "linear")
_smooth("upsample_bilinear2d", "linear")
_smooth("upsample_trilinear3d", "linear")
_smooth("upsample_bicubic2d", "cubic")


@converts("aten.grid_sampler.default", "aten.grid_sampler_2d.default")
def grid_sampler(
    c: Conversion, input: Any, grid: Any, interpolation_mode: Any, padding_mode: Any, align_corners: Any
) -> Any:
    if c.ndim(input) != 4:
        c.refuse("grid_sampler of volumes")
    return op.image.grid_sample(
        input, grid, _METHODS[interpolation_mode], "NCHW", _PADDING[padding_mode], bool(align_corners)
    )
