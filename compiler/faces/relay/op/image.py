"""Operators of images."""

from __future__ import annotations

from typing import Any

from compiler.faces.relay.op.values import numbers, rank, shape
from compiler.faces.relay.table import In, operator
from compiler.relax import op as R

_METHODS = {"nearest_neighbor": "nearest_neighbor", "bilinear": "linear", "bicubic": "cubic", "trilinear": "linear"}


@operator("image.resize2d")
def resize2d(
    data: In, size: Any, roi: Any = None, layout: str = "NCHW", method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel", rounding_method: str = "", cubic_alpha: float = -0.5,
    cubic_exclude: int = 0, extrapolation_value: float = 0.0, out_dtype: str | None = None,
) -> Any:  # fmt: skip
    """Pictures brought to another size."""
    return R.image.resize2d(
        data, tuple(numbers(size, "resize2d") or ()), roi, layout, method, coordinate_transformation_mode,
        rounding_method, cubic_alpha, cubic_exclude, extrapolation_value, out_dtype or None,
    )  # fmt: skip


@operator("image.resize3d")
def resize3d(
    data: In, size: Any, roi: Any = None, layout: str = "NCDHW", method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel", rounding_method: str = "", cubic_alpha: float = -0.5,
    cubic_exclude: int = 0, extrapolation_value: float = 0.0, out_dtype: str | None = None,
) -> Any:  # fmt: skip
    """Volumes brought to another size."""
    return R.image.resize3d(
        data, tuple(numbers(size, "resize3d") or ()), roi, layout, method, coordinate_transformation_mode,
        rounding_method, cubic_alpha, cubic_exclude, extrapolation_value, out_dtype or None,
    )  # fmt: skip


@operator("image.grid_sample")
def grid_sample(
    data: In, grid: In, method: str = "bilinear", layout: str = "NCHW", padding_mode: str = "zeros",
    align_corners: bool = True,
) -> Any:  # fmt: skip
    """Pictures read at the points of a grid, whose coordinates lie along its second axis."""
    axes = [0, *range(2, rank(grid, "grid_sample")), 1]
    return R.image.grid_sample(data, R.permute_dims(grid, axes), method, layout, padding_mode, align_corners)


def _upsampled(data: Any, scales: dict[str, float], layout: str, method: str, mode: str, rule: Any) -> Any:
    sizes = shape(data, "upsampling")
    wanted = tuple(round(sizes[layout.index(letter)] * scale) for letter, scale in scales.items())
    return rule(data, wanted, None, layout, _METHODS[method], mode, "", -0.5)


@operator("nn.upsampling")
def upsampling(
    data: In, scale_h: float = 1, scale_w: float = 1, layout: str = "NCHW", method: str = "nearest_neighbor",
    align_corners: bool = False,
) -> Any:  # fmt: skip
    """Pictures made larger."""
    mode = "align_corners" if align_corners else "asymmetric"
    return _upsampled(data, {"H": scale_h, "W": scale_w}, layout, method, mode, R.image.resize2d)


@operator("nn.upsampling3d")
def upsampling3d(
    data: In, scale_d: float = 1, scale_h: float = 1, scale_w: float = 1, layout: str = "NCDHW",
    method: str = "nearest_neighbor", coordinate_transformation_mode: str = "asymmetric",
) -> Any:  # fmt: skip
    """Volumes made larger."""
    scales = {"D": scale_d, "H": scale_h, "W": scale_w}
    return _upsampled(data, scales, layout, method, coordinate_transformation_mode, R.image.resize3d)
