"""The functions that candidates for a GPU are compared with."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from compiler import topi
from compiler.driver.build import compile_artifact, lower
from compiler.target.target import Target
from compiler.te.operation import placeholder
from compiler.te.prim_func import create_prim_func
from compiler.te.tensor import Tensor
from tests.kit.gpu.checks import run_threads
from tuner.untuned import device_type, runnable
from tuner.workloads import WorkloadSpec


@pytest.mark.parametrize(
    ("product", "shapes", "dtype"),
    [(topi.matmul, ((4, 300), (300, 5)), "float16"), (topi.nn.dense, ((3, 60), (4, 60)), "float16"),
     (topi.matmul, ((4, 6), (6, 4)), "float32")],
)  # fmt: skip
def test_long_sums_of_narrow_floats_are_near_the_truth(
    product: Callable[[Tensor, Tensor], Tensor], shapes: tuple[tuple[int, int], tuple[int, int]], dtype: str
) -> None:
    rng = np.random.default_rng(1)
    x, w = (rng.standard_normal(shape).astype(dtype) for shape in shapes)
    tensors = [placeholder(shape, dtype, name=name) for shape, name in zip(shapes, "xw")]
    made = runnable(create_prim_func([*tensors, product(*tensors)]), Target("cuda"))
    wanted = x.astype(np.float64) @ (w.T if product is topi.nn.dense else w).astype(np.float64)
    out = np.zeros(wanted.shape, dtype)
    run_threads(lower(made), x, w, out)
    np.testing.assert_allclose(out, wanted, rtol=2e-3 if dtype == "float16" else 1e-5, atol=1e-3)


def test_a_convolution_in_float16_is_summed_as_float32_before_what_follows() -> None:
    x, w = placeholder((1, 40, 4, 4), "float16", name="x"), placeholder((2, 40, 3, 3), "float16", name="w")
    func = create_prim_func([x, w, topi.nn.relu(topi.conv2d_nchw(x, w))])
    rng = np.random.default_rng(2)
    data, taps = (rng.standard_normal(shape).astype("float16") for shape in ((1, 40, 4, 4), (2, 40, 3, 3)))
    out = np.zeros((1, 2, 2, 2), "float16")
    run_threads(lower(runnable(func, Target("cuda"))), data, taps, out)
    windows = np.lib.stride_tricks.sliding_window_view(data[0].astype(np.float64), (3, 3), (1, 2))
    wanted = np.maximum(np.einsum("cyxrs,fcrs->fyx", windows, taps.astype(np.float64)), 0)
    np.testing.assert_allclose(out[0], wanted, rtol=2e-3, atol=1e-3)


def test_on_a_cpu_a_function_is_as_it_is() -> None:
    func = WorkloadSpec.parse("copy:64").prim_func()
    assert runnable(func, Target("llvm")) is func
    assert device_type(compile_artifact(runnable(func, Target("cuda")), "cuda")) == "cuda"
