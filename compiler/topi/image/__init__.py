"""Operators of images: resizing, sampling, cropping."""

from compiler.topi.image.grid_sample import (
    affine_grid,
    grid_sample,
    grid_sample_data_backward,
    grid_sample_grid_backward,
)
from compiler.topi.image.resize import crop_and_resize, resize1d, resize2d, resize3d, rounded, source_place

__all__ = [
    "affine_grid", "crop_and_resize", "grid_sample", "grid_sample_data_backward", "grid_sample_grid_backward",
    "resize1d", "resize2d", "resize3d", "rounded", "source_place",
]  # fmt: skip
