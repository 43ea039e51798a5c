"""Softmax and its kin at the limits: rows with infinities and NaN, rows far from 0, and how far off each result is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from compiler import topi
from compiler.driver.build import build
from compiler.interp import interpreter as interp
from compiler.runtime.core.ndarray import array
from compiler.target.target import Target
from compiler.te import operation as te
from compiler.te.prim_func import create_prim_func
from compiler.topi.schedules import generic
from tests.kit.compiler.topi import numpy_dtype

HOST = Target("llvm").resolved()
COLUMNS = [7, 64, 257, 1000]
Array = np.ndarray[Any, Any]


def computed(make: Any, how: Any, *arrays: Array) -> tuple[Array, Array]:
    """Return the result of the scheduled machine code, and the interpreter's for the function as written."""
    inputs = [te.placeholder(a.shape, str(a.dtype), name=f"X{i}") for i, a in enumerate(arrays)]
    output = make(*inputs)
    shape = arrays[0].shape
    interpreted = np.empty(shape, output.dtype)
    with np.errstate(all="ignore"):
        interp.run(create_prim_func([*inputs, output]), *arrays, interpreted)
    built = array(np.empty(shape, output.dtype))
    build(how(HOST, [output]), [*inputs, output], target=HOST)(*map(array, arrays), built)
    return built.numpy(), interpreted


def softmax(x: Array, wide: Any) -> Array:
    with np.errstate(all="ignore"):
        x = x.astype(wide)
        e = np.exp(x - x.max(-1, keepdims=True))
        result: Array = e / e.sum(-1, keepdims=True)
    return result


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize(("dtype", "wide"), [("float32", np.float64), ("float64", np.longdouble)])
def test_softmax_of_special_rows(columns: int, dtype: str, wide: Any) -> None:
    """A NaN or an infinite maximum makes its row NaN, and no other; -inf has no share; nothing overflows."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((12, columns)).astype(dtype)
    inf, nan, last = np.inf, np.nan, columns - 1
    x[0, 3], x[1, 0], x[2, last] = nan, nan, -nan
    x[3, 2], x[4, last] = inf, -inf
    x[5, :], x[6, :] = -inf, nan
    x[7, 1:] = -inf
    x[8] *= 1e30
    x[9] = np.finfo(dtype).max
    x[10] -= 1e4
    x[11, :2] = np.array([0x7F800001, 0x7FC001FF], "uint32").view("float32") if dtype == "float32" else nan
    for got in computed(topi.nn.softmax, generic.schedule_softmax, x):
        np.testing.assert_allclose(got, softmax(x, wide), rtol=1e-5 if dtype == "float32" else 1e-13)


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize(("dtype", "wide"), [("float32", np.float64), ("float64", np.longdouble)])
def test_softmax_is_within_its_bound(columns: int, dtype: str, wide: Any) -> None:
    """x - max is rounded, which exp makes |x - max| / 2 units of the last place; 8 more are the exponential's, the
    sum's and the division's."""
    x = (np.random.default_rng(4).standard_normal((64, columns)) * 8).astype(dtype)
    unit = float(np.finfo(dtype).eps)
    want = softmax(x, wide)
    distance = (x.max(-1, keepdims=True) - x).astype(wide)
    got, _ = computed(topi.nn.softmax, generic.schedule_softmax, x)  # as written, the sum has an error for each column
    assert (np.abs(got - want) <= want * unit * (8 + distance)).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_log_softmax_of_special_rows(dtype: str) -> None:
    x = np.random.default_rng(5).standard_normal((4, 100)).astype(dtype)
    x[0, 50], x[1, 7], x[2, 9] = np.nan, -np.inf, np.inf
    with np.errstate(all="ignore"):
        want = np.log(softmax(x, np.longdouble)).astype("float64")
    for got in computed(topi.nn.log_softmax, generic.schedule_softmax, x):
        np.testing.assert_allclose(got, want, rtol=1e-5 if dtype == "float32" else 1e-13, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_floats_of_16_bits_are_summed_as_float32(dtype: str) -> None:
    """Over 6,000 elements, where sums of 16 bits stop to grow, results are rounded just once."""
    rng = np.random.default_rng(3)
    x = (rng.random((2, 6000)) + 0.5).astype(numpy_dtype(dtype))
    w = (rng.random(6000) + 0.5).astype(x.dtype)
    wide, weight = x.astype("float64"), w.astype("float64")
    powers = np.exp(wide)
    centred = wide - wide.mean(1, keepdims=True)
    normal = centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5)
    root = wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-5)
    for make, arrays, wanted in [
        (lambda a: topi.sum(a, 1), [x], wide.sum(1)),
        (lambda a: topi.mean(a, 1), [x], wide.mean(1)),
        (topi.nn.softmax, [x], powers / powers.sum(1, keepdims=True)),
        (topi.nn.log_softmax, [x], np.log(powers / powers.sum(1, keepdims=True))),
        (lambda a, g: topi.nn.layer_norm(a, g, g), [x, w], normal * weight + weight),
        (topi.nn.rms_norm, [x, w], root * weight),
    ]:
        inputs = [te.placeholder(a.shape, str(a.dtype)) for a in arrays]
        output = make(*inputs)
        assert output.dtype == dtype
        found = array(np.empty(wanted.shape, x.dtype))
        build(create_prim_func([*inputs, output]))(*map(array, arrays), found)
        unit = 2.0**-10 if dtype == "float16" else 2.0**-7  # the distance of numbers at 1
        off = np.abs(found.numpy().astype("float64") - wanted) / np.maximum(np.abs(wanted), np.abs(wanted).max() / 20)
        assert off.max() < unit, make
