"""topi's operators compute what numpy computes, and say what does not fit."""

import numpy as np
import pytest

from compiler import topi
from compiler.errors import IRError
from compiler.interp import interpreter as interp
from compiler.te import operation as te
from compiler.te.prim_func import create_prim_func
from compiler.te.tensor import Tensor
from compiler.tir import ops

RNG = np.random.default_rng(0)


def data(*shape: int, dtype: str = "float32") -> np.ndarray:
    if dtype.startswith("int"):
        return RNG.integers(-50, 50, shape).astype(dtype)
    return RNG.standard_normal(shape).astype(dtype)


def like(array: np.ndarray, name: str = "X") -> Tensor:
    return te.placeholder(array.shape, str(array.dtype), name=name)


def run(inputs: list[Tensor], arrays: list[np.ndarray], output: Tensor) -> np.ndarray:
    out = np.empty([ops.as_int(d) for d in output.shape], output.dtype)
    interp.run(create_prim_func([*inputs, output]), *arrays, out)
    return out


def call(make, *arrays: np.ndarray) -> np.ndarray:
    inputs = [like(array, f"X{i}") for i, array in enumerate(arrays)]
    return run(inputs, list(arrays), make(*inputs))


# --------------------------------------------------------------------------- matrix product


@pytest.mark.parametrize("transp_a", [False, True])
@pytest.mark.parametrize("transp_b", [False, True])
def test_matmul(transp_a: bool, transp_b: bool) -> None:
    a, b = data(5, 7), data(7, 6)
    got = call(
        lambda x, y: topi.matmul(x, y, transp_a, transp_b),
        np.ascontiguousarray(a.T) if transp_a else a,
        np.ascontiguousarray(b.T) if transp_b else b,
    )
    np.testing.assert_allclose(got, a @ b, rtol=1e-4, atol=1e-5)


def test_dense_with_bias_in_another_dtype() -> None:
    x, w, bias = data(3, 7, dtype="int8"), data(4, 7, dtype="int8"), data(4, dtype="int32")
    got = call(lambda a, b, c: topi.nn.dense(a, b, c, out_dtype="int32"), x, w, bias)
    np.testing.assert_array_equal(got, x.astype("int32") @ w.T.astype("int32") + bias)


def test_batch_matmul() -> None:
    a, b = data(2, 3, 4), data(2, 5, 4)
    np.testing.assert_allclose(call(topi.nn.batch_matmul, a, b), a @ b.transpose(0, 2, 1), rtol=1e-4, atol=1e-5)
    c = data(2, 4, 5)
    np.testing.assert_allclose(
        call(lambda x, y: topi.batch_matmul(x, y, transpose_b=False), a, c), a @ c, rtol=1e-4, atol=1e-5
    )


# ------------------------------------------------------------------------------ convolution


def conv2d(x, w, stride, padding, dilation):
    """Convolution by its definition, in float64. `padding` is top, left, bottom, right."""
    top, left, bottom, right = padding
    x = np.pad(x.astype("float64"), [(0, 0), (0, 0), (top, bottom), (left, right)])
    rows, cols = w.shape[2:]
    out_h = (x.shape[2] - (rows - 1) * dilation[0] - 1) // stride[0] + 1
    out_w = (x.shape[3] - (cols - 1) * dilation[1] - 1) // stride[1] + 1
    out = np.zeros((x.shape[0], w.shape[0], out_h, out_w))
    for y in range(out_h):
        for z in range(out_w):
            top_, left_ = y * stride[0], z * stride[1]
            part = x[:, :, top_ : top_ + rows * dilation[0] : dilation[0],
                     left_ : left_ + cols * dilation[1] : dilation[1]]  # fmt: skip
            out[:, :, y, z] = np.einsum("ncrs,kcrs->nk", part[:, :, :rows, :cols], w)
    return out


@pytest.mark.parametrize(
    ("stride", "padding", "dilation", "amounts"),
    [
        (1, 0, 1, (0, 0, 0, 0)), (1, 1, 1, (1, 1, 1, 1)), (2, 1, 1, (1, 1, 1, 1)),
        ((1, 2), (0, 2), (2, 1), (0, 2, 0, 2)), (1, (0, 1, 2, 3), 1, (0, 1, 2, 3)),
        (1, "SAME", 1, (1, 1, 1, 1)), (1, "VALID", 1, (0, 0, 0, 0)),
    ],
)  # fmt: skip
def test_conv2d_nchw(stride, padding, dilation, amounts) -> None:
    x, w = data(2, 3, 7, 8), data(4, 3, 3, 3)
    got = call(lambda a, b: topi.nn.conv2d_nchw(a, b, stride, padding, dilation), x, w)
    both = [s if isinstance(s, tuple) else (s, s) for s in (stride, dilation)]
    np.testing.assert_allclose(got, conv2d(x, w, both[0], amounts, both[1]), rtol=1e-4, atol=1e-4)


def test_without_padding_there_is_no_copy() -> None:
    x, w = like(data(1, 2, 5, 5)), like(data(2, 2, 3, 3))
    assert topi.nn.conv2d_nchw(x, w).op.input_tensors == (x, w)


def test_pad_with_a_value() -> None:
    x = data(3, 4)
    got = call(lambda a: topi.nn.pad(a, (1, 0), (0, 2), pad_value=-1.5), x)
    np.testing.assert_array_equal(got, np.pad(x, [(1, 0), (0, 2)], constant_values=-1.5))


# -------------------------------------------------------------------------- element by element


@pytest.mark.parametrize("name", ["exp", "sqrt", "tanh", "sin", "cos", "floor", "ceil", "trunc", "abs", "negative"])
def test_unary(name: str) -> None:
    x = np.abs(data(3, 5)) + np.float32(0.1)
    np.testing.assert_allclose(call(getattr(topi, name), x), getattr(np, name)(x), rtol=1e-5)


@pytest.mark.parametrize("shapes", [((3, 4), (3, 4)), ((3, 4), (4,)), ((2, 1, 4), (3, 1)), ((1,), (5, 2))])
@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "maximum", "minimum"])
def test_binary_broadcasts(name: str, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    x, y = data(*shapes[0]), data(*shapes[1])
    np.testing.assert_allclose(call(getattr(topi, name), x, y), getattr(np, name)(x, y), rtol=1e-6)


def test_comparisons_and_scalars() -> None:
    x, y = data(6), data(6)
    np.testing.assert_array_equal(call(topi.greater, x, y), x > y)
    np.testing.assert_array_equal(call(topi.less_equal, x, y), x <= y)
    np.testing.assert_allclose(call(lambda a: topi.multiply(a, 3), x), x * 3)
    np.testing.assert_allclose(call(lambda a: topi.power(topi.abs(a), 2.0), x), np.abs(x) ** 2, rtol=1e-5)
    np.testing.assert_allclose(call(lambda a: topi.clip(a, -0.5, 0.5), x), x.clip(-0.5, 0.5))
    np.testing.assert_array_equal(call(lambda a: topi.cast(a, "int32"), x * 10), (x * 10).astype("int32"))
    np.testing.assert_allclose(call(topi.nn.relu, x), x.clip(0))
    np.testing.assert_allclose(call(lambda a: topi.broadcast_to(a, (4, 6)), x), np.broadcast_to(x, (4, 6)))


def test_operators_of_tensors() -> None:
    x, y = data(3, 4), data(4)
    np.testing.assert_allclose(call(lambda a, b: (a + b) * 2 - a / 4, x, y), (x + y) * 2 - x / 4, rtol=1e-5)
    np.testing.assert_allclose(call(lambda a: 1 - (-a), x), 1 + x, rtol=1e-6)


# ------------------------------------------------------------------- reductions and movement


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2)])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("name", ["sum", "max", "min", "prod"])
def test_reductions(name: str, axis, keepdims: bool) -> None:
    x = data(2, 3, 4)
    got = call(lambda a: getattr(topi, name)(a, axis, keepdims), x)
    np.testing.assert_allclose(got, getattr(np, name)(x, axis=axis, keepdims=keepdims), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_softmax(axis: int) -> None:
    x = data(3, 4, 5) * np.float32(30)
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    np.testing.assert_allclose(
        call(lambda a: topi.nn.softmax(a, axis), x), e / e.sum(axis=axis, keepdims=True), rtol=1e-4
    )


def test_movement() -> None:
    x, y = data(2, 3, 4), data(2, 5, 4)
    np.testing.assert_array_equal(call(topi.transpose, x), x.transpose())
    np.testing.assert_array_equal(call(lambda a: topi.transpose(a, (1, -1, 0)), x), x.transpose(1, 2, 0))
    np.testing.assert_array_equal(call(lambda a: topi.reshape(a, (6, -1)), x), x.reshape(6, 4))
    np.testing.assert_array_equal(call(lambda a, b: topi.concatenate([a, b, a], 1), x, y), np.concatenate([x, y, x], 1))
    np.testing.assert_array_equal(call(lambda a: topi.expand_dims(a, -1, 2), x), x[..., None, None])


# ----------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: topi.matmul(like(data(2, 3)), like(data(4, 5))), "the K of 'X' (2, 3) and 'X' (4, 5) differ"),
        (lambda: topi.nn.dense(like(data(2)), like(data(4, 5))), "dense needs 2 dimensions"),
        (lambda: topi.nn.conv2d_nchw(like(data(1, 2, 5, 5)), like(data(1, 3, 3, 3))), "numbers of channels"),
        (lambda: topi.nn.conv2d_nchw(like(data(1, 2, 2, 5)), like(data(1, 2, 3, 3))), "does not fit"),
        (lambda: topi.nn.conv2d_nchw(like(data(1, 2, 5, 5)), like(data(1, 2, 3, 3)), 0), "stride must be"),
        (lambda: topi.nn.conv2d_nchw(like(data(1, 2, 5, 5)), like(data(1, 2, 3, 3)), 1, "LESS"), "'LESS'"),
        (lambda: topi.nn.pad(like(data(2, 3)), (1,)), "needs 2 amounts"),
        (lambda: topi.add(like(data(2, 3)), like(data(2))), "do not broadcast: 3 and 2"),
        (lambda: topi.sum(like(data(2, 3)), axis=2), "sum over axis 2"),
        (lambda: topi.nn.softmax(like(data(2, 3)), axis=2), "softmax over axis 2"),
        (lambda: topi.transpose(like(data(2, 3)), (0, 0)), "transpose of (2, 3)"),
        (lambda: topi.reshape(like(data(2, 3)), (4, 2)), "cannot reshape (2, 3)"),
        (lambda: topi.concatenate([like(data(2, 3)), like(data(3, 2))]), "concatenate along 0"),
    ],
)  # fmt: skip
def test_mistakes_are_named_at_the_users_line(make, text: str) -> None:
    with pytest.raises(IRError) as error:
        make()
    assert text in error.value.message
    assert __file__ in error.value.message
