"""A library's times beside those of a family."""

from __future__ import annotations

from tuner.families.family import FamilySpec
from tuner.families.library import library_times
from tuner.families.sizes import parse_shapes


def test_numpy_has_a_time_at_each_size_of_a_product() -> None:
    for text in ("dense:M,6,5", "matmul:M,6,5", "batch_matmul:2,M,6,5:float64"):
        [(name, times)] = library_times(FamilySpec.parse(text), parse_shapes(["M=1,4"])).items()
        assert name.startswith("numpy (")
        assert len(times) == 2
        assert all(time is not None and time > 0 for time in times)


def test_numpy_has_no_convolution() -> None:
    assert library_times(FamilySpec.parse("conv2d:1,4,H,H,8,3,3"), parse_shapes(["H=6"])) == {}
