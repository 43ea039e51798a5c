"""Named workloads: parsing, errors, what they compute, how many operations they count."""

from __future__ import annotations

import pytest

from tuner.errors import WorkloadError
from tuner.task import count_flops
from tuner.workloads import OPERATORS, WorkloadSpec


def test_a_spec_survives_text_and_json():
    spec = WorkloadSpec.parse("matmul:3,4,5:float64")
    assert spec == WorkloadSpec("matmul", (3, 4, 5), "float64")
    assert WorkloadSpec.parse(str(spec)) == spec
    assert WorkloadSpec.from_json(spec.to_json()) == spec


def test_the_dtype_defaults_to_float32():
    assert WorkloadSpec.parse("dense:8,8,8").dtype == "float32"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("matmool:1,2,3", "no workload is called 'matmool:1,2,3'"),
        ("matmul", "has no sizes"),
        ("matmul:1,x,3", "not whole numbers"),
        ("matmul:1,2", "takes 3 sizes, got 2"),
        ("matmul:0,2,3", "must be positive"),
        ("matmul:1,2,3:float31", "float31"),
        ("conv2d:1,1,8,8,1,3,3,1,1,9", "takes 7 to 9 sizes"),
    ],
)
def test_a_wrong_spec_says_what_is_wrong_and_what_would_be_right(text, says):
    with pytest.raises(WorkloadError, match=says.replace("(", r"\(")) as caught:
        WorkloadSpec.parse(text)
    assert caught.value.hint


def test_json_that_is_no_spec_is_refused():
    with pytest.raises(WorkloadError):
        WorkloadSpec.from_json({"op": "matmul"})


@pytest.mark.parametrize(
    ("text", "flops"),
    [
        ("matmul:4,5,6", 2 * 4 * 5 * 6),
        ("batch_matmul:2,4,5,6", 2 * 2 * 4 * 5 * 6),
        ("dense:4,5,6", 2 * 4 * 5 * 6),
        ("conv2d:1,3,8,8,4,3,3", 2 * 4 * 8 * 8 * 3 * 9),
        ("conv2d:1,3,8,8,4,3,3,2,1", 2 * 4 * 4 * 4 * 3 * 9),
        ("conv2d:1,3,8,8,4,3,3,1,0", 2 * 4 * 6 * 6 * 3 * 9),
    ],
)
def test_operations_are_counted_over_the_iteration_domain(text, flops):
    assert count_flops(WorkloadSpec.parse(text).prim_func()) == flops


def test_every_operator_documents_its_sizes():
    for name, operator in OPERATORS.items():
        assert operator.usage(name).startswith(f"{name}:")


@pytest.mark.parametrize("text", ["matmul:3,4,5:int8", "dense:3,4,5:uint8", "batch_matmul:2,3,4,5:int8",
                                  "conv2d:1,2,4,4,3,3,3:uint8", "depthwise_conv2d:1,2,4,4,3,3:int8"])  # fmt: skip
def test_products_of_bytes_are_summed_as_integers_of_32_bits(text: str) -> None:
    first, second, result = WorkloadSpec.parse(text).tensors()
    assert (first.dtype, second.dtype, result.dtype) == (text.split(":")[2],) * 2 + ("int32",)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("text", ["matmul:3,4,5", "dense:3,4,5", "batch_matmul:2,3,4,5", "conv2d:1,2,4,4,3,3,3"])
def test_products_of_16_bit_floats_are_summed_as_float32(text: str, dtype: str) -> None:
    *inputs, result = WorkloadSpec.parse(f"{text}:{dtype}").tensors()
    assert {x.dtype for x in inputs} == {dtype}
    assert result.dtype == "float32"
