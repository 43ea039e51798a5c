"""Resizing and grids: StructInfo, kernels and numpy agree; refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from compiler.errors import IRError
from compiler.relax import op
from compiler.relax.block_builder import BlockBuilder
from compiler.relax.nodes import TensorStructInfo, Var
from tests.kit.compiler.relax_ops import Case, check

Array = np.ndarray[Any, Any]
image = op.image
WHOLE = ("int8", "uint8", "int32", "int64")
"""Numbers a hair below a whole one lose one when they are made whole."""


def stretched(a: Array, axis: int, size: int, corners: bool = False) -> Array:
    """Linear interpolation along one dimension, at the middles of pixels or from corner to corner."""
    old = a.shape[axis]
    places = np.arange(size) * (old - 1) / (size - 1) if corners else (np.arange(size) + 0.5) * old / size - 0.5
    if not a.size:
        return np.zeros([size if d == axis else n for d, n in enumerate(a.shape)])
    return np.apply_along_axis(lambda row: np.interp(places, np.arange(old), row), axis, a.astype("float64"))


def linear(a: Array, sizes: Any, first: int = 2, corners: bool = False) -> Array:
    for axis, size in enumerate(sizes, first):
        a = stretched(a, axis, size, corners)
    return a


def cropped(a: Array) -> Array:
    """Rows 1 to 3 of 5, columns 0 to 4 of 5, at every second of them."""
    return a[:, :, 1:4:2, 0:5:2]


def sampled(a: Array, grid: Array) -> Array:
    """The nearest pixel of a 4 by 6 image, corners at -1 and 1."""
    x = np.clip(np.rint((grid[..., 0].astype("float64") + 1) / 2 * 5).astype(int), 0, 5)
    y = np.clip(np.rint((grid[..., 1].astype("float64") + 1) / 2 * 3).astype(int), 0, 3)
    return np.stack([a[n][:, y[n], x[n]] for n in range(len(a))]) if len(a) else a[:, :, :3, :2]


def affine(m: Array, sizes: tuple[int, ...], corners: bool) -> Array:
    """Where matrices map the pixels of `sizes` to, the last dimension first."""
    axes = [np.linspace(-1, 1, n) if corners else (2 * np.arange(n) + 1) / n - 1 for n in sizes]
    places = np.meshgrid(*axes, indexing="ij")[::-1]
    return np.einsum("nak,k...->na...", m.astype("float64"), np.stack([*places, np.ones_like(places[0])]))


CASES = [
    Case("affine_grid", lambda m: image.affine_grid(m, (4, 3)), lambda m: affine(m, (4, 3), True), ["n 2 3"],
         ("float32", "float64"), tolerance=1e-4),
    Case("affine_grid between corners", lambda m: image.affine_grid(m, 5, False), lambda m: affine(m, (5, 5), False),
         ["n 2 3"], tolerance=1e-4),
    Case("affine_grid of volumes", lambda m: image.affine_grid(m, (2, 4, 3), align_corners=False),
         lambda m: affine(m, (2, 4, 3), False), ["n 3 4"], tolerance=1e-4),
    Case("resize2d", lambda x: image.resize2d(x, (7, 3)), lambda a: linear(a, (7, 3)), ["n m 4 5"],
         ("float32", "float64"), unlike=WHOLE, tolerance=1e-4),
    Case("resize2d square", lambda x: image.resize2d(x, 6, layout="NHWC"), lambda a: linear(a, (6, 6), 1), ["n 4 5 m"],
         unlike=WHOLE, tolerance=1e-4),
    Case("resize2d to corners",
         lambda x: image.resize2d(x, (7, 3), coordinate_transformation_mode="align_corners"),
         lambda a: linear(a, (7, 3), corners=True), ["n m 4 5"], tolerance=1e-4),
    Case("resize2d nearest",
         lambda x: image.resize2d(x, (8, 15), None, "NCHW", "nearest_neighbor", "asymmetric", "floor",
                                  out_dtype="float64"),
         lambda a: a.repeat(2, 2).repeat(3, 3), ["n m 4 5"], ("float32", "int32")),
    Case("resize2d of a part",
         lambda x: image.resize2d(x, (2, 3), [0.25, 0.0, 0.75, 1.0], "NCHW", "linear", "tf_crop_and_resize"), cropped,
         ["n m 5 5"], tolerance=1e-4),
    Case("resize3d", lambda x: image.resize3d(x, (3, 5, 2)), lambda a: linear(a, (3, 5, 2)), ["n m 2 3 4"],
         unlike=WHOLE, tolerance=1e-4),
    Case("grid_sample", lambda x, g: image.grid_sample(x, g, "nearest", padding_mode="border", align_corners=True),
         sampled, ["n m 4 6", "n 3 2 2"]),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-"))
def test_info_kernel_and_numpy_agree(case: Case) -> None:
    check(case)


def var(*shape: int) -> Var:
    return Var("x", TensorStructInfo(shape, "float32"))


X = var(1, 3, 4, 5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: image.resize2d(X, (1, 2, 3)), "size has 3 numbers, it must have 2, or one for all"),
        (lambda: image.resize2d(X, (0, 2)), "the numbers of size must be positive"),
        (lambda: image.resize2d(X, 2, method="best"), "method is 'best', it must be one of 'nearest_neighbor'"),
        (lambda: image.resize2d(X, 2, roi=(1.0, 2.0)), "roi is (1.0, 2.0), it must be one number or 4"),
        (lambda: image.resize3d(X, 2), "data must have 5 dimensions, got 4"),
        (lambda: image.grid_sample(X, var(2, 3, 3, 2)), "the batches of data and grid differ: 1 and 2"),
        (lambda: image.grid_sample(X, var(1, 2, 3, 3)), "the last dimension of grid must be 2"),
        (lambda: image.affine_grid(var(1, 2, 3), (1, 2, 3, 4)), "size has 4 numbers, it must be (height, width)"),
        (lambda: image.affine_grid(var(1, 2, 3), (1, 2, 3)), "the dimensions of data and those of 3 by 4 matrices"),
        (lambda: image.grid_sample(X, X, padding_mode="none"), "padding_mode is 'none'"),
    ],
)
def test_refusals(make: Any, message: str) -> None:
    with pytest.raises(IRError) as error:
        BlockBuilder().normalize(make())
    assert message in str(error.value)
