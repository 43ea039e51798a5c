"""Gradients of te tensors, compared with differences of what the tensors hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.errors import IRError
from compiler.interp import interpreter as interp
from compiler.te.extern import extern
from compiler.te.gradient import gradient
from compiler.te.prim_func import create_prim_func
from tests.unit.compiler.te.test_extern import copying
from tunefarm import te, topi

STEP = 1e-6


def values(output: te.Tensor, inputs: list[te.Tensor], arrays: list[np.ndarray]) -> np.ndarray:
    made = np.zeros([int(size) for size in output.shape], output.dtype)
    interp.run(create_prim_func([*inputs, output]), *arrays, made)
    return made


def check(output: te.Tensor, inputs: list[te.Tensor], seed: int = 0, low: float = 0.3, high: float = 1.7) -> None:
    """The gradients with a random head of one leading dimension are the differences of the head's products."""
    rng = np.random.default_rng(seed)
    arrays = [rng.uniform(low, high, [int(size) for size in item.shape]) for item in inputs]
    head = te.placeholder((2, *output.shape), output.dtype, name="head")
    weights = rng.uniform(-1, 1, [int(size) for size in head.shape])
    found = gradient(output, inputs, head)
    axes = list(range(1, weights.ndim))
    for which, (tensor, made) in enumerate(zip(inputs, found)):
        got = values(made, [*inputs, head], [*arrays, weights])
        wanted = np.zeros((2, *arrays[which].shape))
        for place in np.ndindex(arrays[which].shape):
            sides = []
            for sign in (1, -1):
                moved = [array.copy() for array in arrays]
                moved[which][place] += sign * STEP
                sides.append((weights * values(output, inputs, moved)).sum(axis=tuple(axes)))
            wanted[(slice(None), *place)] = (sides[0] - sides[1]) / (2 * STEP)
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-6, err_msg=tensor.name)


def tensor(*shape: int, name: str = "x") -> te.Tensor:
    return te.placeholder(shape, "float64", name=name)


ELEMENTWISE: dict[str, Any] = {
    "arithmetic": lambda x, y: (x * y - x / y + 2.0) * (x - 3.0),
    "exponential": lambda x, y: te.exp(-x) + te.log(y) * te.sqrt(x) + te.rsqrt(y) + te.log2(x),
    "sigmoids": lambda x, y: te.tanh(x) * te.sigmoid(y) + te.erf(x * y),
    "angles": lambda x, y: te.sin(x) * te.cos(y) + te.tan(x * 0.5) + te.atan(y) + te.sinh(x) - te.cosh(y),
    "choices": lambda x, y: te.max(x, y) * te.if_then_else(x > 1.0, x, y * y) + te.abs(x - 1.0) + te.floor(y),
    "powers": lambda x, y: te.power(x, y) + te.power(y, 3.0),
}


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise_functions(name: str) -> None:
    x, y = tensor(2, 3), tensor(2, 3, name="y")
    check(te.compute((2, 3), lambda i, j: ELEMENTWISE[name](x[i, j], y[i, j])), [x, y])


@given(size=st.integers(1, 3), kernel=st.integers(1, 3), stride=st.integers(1, 2), dilation=st.integers(1, 2))
@settings(max_examples=8, deadline=None)
def test_products_and_windows(size: int, kernel: int, stride: int, dilation: int) -> None:
    span = (size - 1) * stride + (kernel - 1) * dilation + 1
    x, w = tensor(2, span), tensor(2, 2, kernel, name="w")
    c, r = te.reduce_axis((0, 2), "c"), te.reduce_axis((0, kernel), "r")
    conv = te.compute(
        (2, size), lambda o, i: te.sum(x[c, i * stride + r * dilation] * w[o, c, r], axis=[c, r]), name="conv"
    )
    check(te.compute((2, size), lambda o, i: te.tanh(conv[o, i]) * conv[o, 0], name="act"), [x, w])


def test_shapes_that_change() -> None:
    x = tensor(3, 4)
    flipped = te.compute((4, 3), lambda i, j: x[2 - j, i] * x[j, 3 - i], name="flipped")
    flat = te.compute((12,), lambda i: flipped[i // 3, i % 3] * (2.0 + i), name="flat")
    k = te.reduce_axis((0, 12), "k")
    check(te.compute((2,), lambda i: te.max(flat[k] * (i + 1.0), axis=k), name="most"), [x])
    padded = te.compute(
        (5, 6), lambda i, j: te.if_then_else(te.all(i >= 1, i < 4, j >= 1, j < 5), x[i - 1, j - 1], 0.0), name="padded"
    )
    check(padded, [x])
    diagonal = te.compute((3,), lambda i: x[i, i] + x[i, 3], name="diagonal")
    check(diagonal, [x])


def test_networks_of_topi() -> None:
    data, weight = tensor(1, 2, 4, 4, name="data"), tensor(2, 2, 3, 3, name="weight")
    made = topi.nn.conv2d(data, weight, 1, 1, 1)
    made = topi.nn.relu(made - 8.0)
    check(topi.sum(made, axis=[2, 3]), [data, weight])
    rows = tensor(2, 3)
    check(topi.nn.softmax(rows), [rows])


def test_without_a_head_it_is_the_jacobian() -> None:
    x, other = tensor(3), tensor(2, name="other")
    y = te.compute((3,), lambda i: x[i] * x[2 - i], name="y")
    jacobian, nothing = gradient(y, [x, other])
    point = np.array([1.0, 2.0, 5.0])
    wanted = np.array([[5.0, 0, 1], [0, 4, 0], [5, 0, 1]])
    np.testing.assert_allclose(values(jacobian, [x], [point]), wanted)
    np.testing.assert_array_equal(values(nothing, [], []), np.zeros((3, 2)))
    twice = te.compute((3,), lambda i: y[i] * 2.0, name="twice")
    (inner,) = gradient(twice, y)
    np.testing.assert_allclose(values(inner, [], []), 2 * np.eye(3))


def test_what_has_no_gradient_is_refused() -> None:
    x = te.placeholder((3, 4), name="A")
    with pytest.raises(IRError, match="'copy' is a ExternOp, which has no gradient"):
        gradient(extern((3, 4), [x], copying, name="copy"), [x])
    k = te.reduce_axis((0, 4), "k")
    product = te.compute((3,), lambda i: te.prod(x[i, k], axis=k), name="product")
    with pytest.raises(IRError, match="'product' is a reduction that has no gradient"):
        gradient(product, x)
    with pytest.raises(IRError, match="does not end in"):
        gradient(x, [x], te.placeholder((4, 3), name="head"))
