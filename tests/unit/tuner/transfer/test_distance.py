"""Which functions are of one family, and how far apart their shapes are."""

from __future__ import annotations

import math

import pytest

from compiler.te.operation import compute, placeholder, reduce_axis, sum, var
from compiler.te.prim_func import create_prim_func
from tuner.transfer.distance import between, describe, distance
from tuner.workloads import WorkloadSpec


def func(spec: str):
    return WorkloadSpec.parse(spec).prim_func()


def scaled(rows, columns, factor=2.0, name="B", dtype="float32"):
    a = placeholder((rows, columns), dtype, name="A")
    return create_prim_func([a, compute((rows, columns), lambda i, j: a[i, j] * factor, name=name)])


def test_a_function_is_no_way_from_itself():
    assert distance(func("matmul:64,32,16"), func("matmul:64,32,16")) == 0.0


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("matmul:64,64,64", "matmul:128,64,64", 1.0),
        ("matmul:64,64,64", "matmul:128,128,128", math.sqrt(3)),
        ("matmul:64,64,64", "matmul:32,128,64", math.sqrt(2)),
        ("batch_matmul:4,64,64,64", "batch_matmul:16,64,64,64", 2.0),
    ],
)
def test_an_axis_twice_as_long_is_one_away(a, b, expected):
    assert distance(func(a), func(b)) == pytest.approx(expected)
    assert distance(func(b), func(a)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("matmul:64,64,64", "dense:64,64,64"),  # the weight is read along another axis
        ("matmul:64,64,64", "batch_matmul:1,64,64,64"),
        ("matmul:64,64,64:float32", "matmul:64,64,64:float64"),
        ("conv2d:1,8,14,14,16,3,3,1,1", "conv2d:1,8,14,14,16,3,3,1,0"),  # a block more: the padding
        ("matmul:64,64,64", "conv2d:1,8,14,14,16,3,3"),
    ],
)
def test_functions_of_other_structure_are_of_no_family(a, b):
    assert distance(func(a), func(b)) is None


def test_a_stride_counts_less_than_an_extent():
    base = func("conv2d:1,8,16,16,16,3,3,1,1")
    strided = func("conv2d:1,8,32,32,16,3,3,2,1")  # the same result size
    assert 0 < distance(base, strided) < 1


def test_the_block_with_the_work_counts_most():
    base, wider = func("conv2d:1,64,14,14,64,3,3"), func("conv2d:1,64,14,14,128,3,3")
    assert distance(base, wider) == pytest.approx(1.0, abs=0.02)  # the padding did not change


def test_nearer_shapes_are_nearer():
    here = func("conv2d:1,64,56,56,64,3,3")
    others = ["conv2d:1,64,56,56,64,1,1,1,1", "conv2d:1,128,28,28,128,3,3", "conv2d:1,512,7,7,512,3,3"]
    away = [distance(here, func(o)) for o in others]
    assert away[1] < away[2]
    assert away[0] > 0


def test_names_and_constants_do_not_matter():
    assert distance(scaled(8, 16), scaled(8, 16, factor=3.0, name="other")) == 0.0


def test_dtypes_matter():
    assert distance(scaled(8, 16), scaled(8, 16, dtype="float64")) is None


def test_a_symbolic_extent_has_no_distance():
    rows = var("rows")
    assert describe(scaled(rows, 16)) is None
    assert distance(scaled(rows, 16), scaled(8, 16)) is None


def test_which_buffer_is_read_is_structure():
    def first_of(pick):
        a, b = (placeholder((8, 8), "float32", name=name) for name in "AB")
        return create_prim_func([a, b, compute((8, 8), lambda i, j: pick(a, b)[i, j] + 1.0, name="C")])

    assert distance(first_of(lambda a, b: a), first_of(lambda a, b: b)) is None


def test_a_transposed_access_is_structure():
    def total(transposed):
        a = placeholder((8, 8), "float32", name="A")
        k = reduce_axis((0, 8), name="k")
        return create_prim_func([a, compute((8,), lambda i: sum(a[k, i] if transposed else a[i, k], axis=k), name="S")])

    assert distance(total(False), total(True)) is None
    assert distance(total(True), total(True)) == 0.0


def test_descriptions_can_be_kept_and_compared_later():
    a, b = describe(func("matmul:64,64,64")), describe(func("matmul:64,64,256"))
    assert a.family == b.family
    assert between(a, b) == pytest.approx(2.0)
