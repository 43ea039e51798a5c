"""topi's further operators compute what numpy computes, as written and as scheduled, and say what does not fit."""

from __future__ import annotations

import math

import numpy as np
import pytest

from compiler import topi
from compiler.driver.build import build
from compiler.errors import IRError
from compiler.interp import interpreter as interp
from compiler.runtime.core.ndarray import array
from compiler.target.target import Target
from compiler.te import operation as te
from compiler.te.prim_func import create_prim_func
from compiler.tir import ops
from compiler.topi.schedules import generic

RNG = np.random.default_rng(0)
HOST = Target("llvm").resolved()


def data(*shape: int, dtype: str = "float32") -> np.ndarray:
    if "int" in dtype:
        return RNG.integers(0 if dtype.startswith("uint") else -9, 9, shape).astype(dtype)
    return RNG.standard_normal(shape).astype(dtype)


def check(make, reference, *arrays: np.ndarray, schedule=generic.schedule_injective, tolerance: float = 1e-4) -> None:
    """`make` of tensors like `arrays`: interpreted as written, and built with `schedule`, against `reference`."""
    inputs = [te.placeholder(a.shape, str(a.dtype), name=f"X{i}") for i, a in enumerate(arrays)]
    output = make(*inputs)
    expected = np.asarray(reference(*arrays))
    assert tuple(ops.as_int(d) for d in output.shape) == expected.shape
    interpreted = np.empty(expected.shape, output.dtype)
    interp.run(create_prim_func([*inputs, output]), *arrays, interpreted)
    np.testing.assert_allclose(interpreted, expected, rtol=tolerance, atol=tolerance)
    built = array(np.empty(expected.shape, output.dtype))
    build(schedule(HOST, [output]), [*inputs, output], target=HOST)(*map(array, arrays), built)
    np.testing.assert_allclose(built.numpy(), expected, rtol=tolerance, atol=tolerance)


# ------------------------------------------------------------------------ element by element


@pytest.mark.parametrize("name", ["sinh", "cosh", "exp2", "log2", "log10", "log1p", "sign", "isnan", "isinf"])
def test_unary(name: str) -> None:
    x = np.abs(data(3, 7)) + np.float32(0.1)
    check(getattr(topi, name), getattr(np, name), x)


def test_what_is_no_number() -> None:
    x = np.array([0, -1, np.inf, -np.inf, np.nan], "float32")
    for name in ("isnan", "isinf", "isfinite"):
        check(getattr(topi, name), getattr(np, name), x)


@pytest.mark.parametrize("name", [f"{kind}_{op}" for kind in ("logical", "bitwise") for op in ("and", "or", "xor")])
def test_logic_and_bits(name: str) -> None:
    check(getattr(topi, name), getattr(np, name), data(5, 9, dtype="int32"), data(9, dtype="int32"))


def test_shifts_where_and_constants() -> None:
    check(topi.left_shift, np.left_shift, data(11, dtype="int32"), data(11, dtype="uint8").astype("int32"))
    check(topi.mod, np.mod, data(11, dtype="int32"), np.abs(data(11, dtype="int32")) + 1)
    check(topi.where, np.where, data(4, 1) > 0, data(3, 4, 5), data(5))
    check(lambda a: topi.full_like(a, 2.5), lambda a: np.full_like(a, 2.5), data(3, 5))
    check(lambda: topi.arange(2, 11, 3, "int32"), lambda: np.arange(2, 11, 3))


# ------------------------------------------------------------------------------------ movement

MOVES = {
    "tile": (lambda a: topi.tile(a, (2, 1, 3)), lambda a: np.tile(a, (2, 1, 3))),
    "repeat": (lambda a: topi.repeat(a, 3, -1), lambda a: np.repeat(a, 3, -1)),
    "squeeze": (lambda a: topi.squeeze(topi.expand_dims(a, 1)), lambda a: a),
    "flip": (lambda a: topi.flip(a, 1), lambda a: np.flip(a, 1)),
    "slice": (
        lambda a: topi.strided_slice(a, [0, -1], [3, -9], [2, -1]),
        lambda a: a[0:3:2, -1:-9:-1],
    ),
    "slice of sizes": (
        lambda a: topi.strided_slice(a, [1], [2], axes=[-1], slice_mode="size"),
        lambda a: a[..., 1:3],
    ),
    "stack": (lambda a: topi.stack([a, a, a], -1), lambda a: np.stack([a, a, a], -1)),
    "split": (lambda a: topi.split(a, [1, 4], 2)[1], lambda a: np.split(a, [1, 4], 2)[1]),
    "layout": (
        lambda a: topi.layout_transform(a, "HWC", "CHW3h"),
        lambda a: a.reshape(1, 3, 4, 5).transpose(3, 0, 2, 1),
    ),
}


@pytest.mark.parametrize("name", MOVES)
def test_movement(name: str) -> None:
    check(*MOVES[name], data(3, 4, 5))


@pytest.mark.parametrize("axis", [None, 0, -1])
def test_take_and_gather(axis: int | None) -> None:
    where = np.array([[0, 2], [3, 1]], "int32")
    check(lambda a, i: topi.take(a, i, axis), lambda a, i: np.take(a, i, axis), data(4, 5), where)
    far = np.array([-3, 7], "int32")
    for mode in ("clip", "wrap"):
        check(
            lambda a, i, mode=mode: topi.take(a, i, axis, mode=mode),
            lambda a, i, mode=mode: np.take(a, i, axis, mode=mode),
            data(4, 5),
            far,
        )
    if axis is not None:
        index = RNG.integers(0, 4, (4, 5)).astype("int32")
        check(lambda a, i: topi.gather(a, axis, i), lambda a, i: np.take_along_axis(a, i, axis), data(4, 5), index)


# ---------------------------------------------------------------------------------- reductions


@pytest.mark.parametrize("axis", [None, 0, -1])
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_positions(name: str, axis: int | None) -> None:
    x = data(6, 7, dtype="int32").astype("float32")  # with ties

    def reference(a):
        return getattr(np, name)(a, axis)

    check(lambda a: getattr(topi, name)(a, axis), reference, x, schedule=generic.schedule_reduce)


def test_all_any_and_the_last_of_equals() -> None:
    x = data(5, 6) > -1
    check(lambda a: topi.all(a, 1), lambda a: a.all(1), x, schedule=generic.schedule_reduce)
    check(lambda a: topi.any(a, 0, True), lambda a: a.any(0, keepdims=True), x, schedule=generic.schedule_reduce)
    ties = np.array([[1, 3, 3, 0]], "float32")
    check(
        lambda a: topi.argmax(a, 1, select_last_index=True), lambda a: [2], ties, schedule=generic.schedule_reduce
    )


@pytest.mark.parametrize("text", ["ij,jk->ik", "bij,bkj->bik", "ii", "ij->ji", "i,j"])
def test_einsum(text: str) -> None:
    sizes = {"b": 2, "i": 5, "j": 7, "k": 4}
    arrays = [data(*(sizes[n] for n in term)) for term in text.partition("->")[0].split(",")]
    check(lambda *a: topi.einsum(text, *a), lambda *a: np.einsum(text, *a), *arrays, schedule=generic.schedule_reduce)


# ------------------------------------------------------------------------ neural networks


def along_channels(v: np.ndarray, axis: int) -> np.ndarray:
    return v.reshape([-1 if d == axis else 1 for d in range(4)])


def test_activations() -> None:
    x, c = data(2, 3, 4, 5), data(3)
    check(lambda a: topi.nn.leaky_relu(a, 0.1), lambda a: np.where(a > 0, a, a * np.float32(0.1)), x)
    check(topi.nn.prelu, lambda a, s: np.where(a > 0, a, a * along_channels(s, 1)), x, c)
    check(topi.nn.bias_add, lambda a, s: a + along_channels(s, 1), x, c)
    check(
        topi.nn.scale_shift_nchw, lambda a, s, t: a * along_channels(s, 1) + along_channels(t, 1), x, c, data(3)
    )
    check(topi.nn.gelu, lambda a: a * (1 + np.vectorize(math.erf)(a / 2**0.5)) / 2, x)
    check(topi.nn.flatten, lambda a: a.reshape(2, -1), x)
    check(lambda a: topi.nn.upsampling(a, 2, 3), lambda a: a.repeat(2, 2).repeat(3, 3), x)


def test_batch_norm() -> None:
    x, gamma, beta, mean, var = data(2, 3, 4, 5), data(3), data(3), data(3), np.abs(data(3)) + 1

    def reference(a, g, b, m, v):
        g, b, m, v = (along_channels(t, 1) for t in (g, b, m, v))
        return (a - m) / np.sqrt(v + 1e-5) * g + b

    check(lambda *a: topi.nn.batch_norm(*a)[0], reference, x, gamma, beta, mean, var)


def _softmax(x: np.ndarray, axis: int) -> np.ndarray:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


@pytest.mark.parametrize("shape", [(3, 17, 65), (130, 257)])
@pytest.mark.parametrize("axis", [-1, 0])
def test_softmax(shape: tuple[int, ...], axis: int) -> None:
    x, how = data(*shape), generic.schedule_softmax
    check(lambda a: topi.nn.softmax(a, axis), lambda a: _softmax(a, axis), x, schedule=how)
    check(lambda a: topi.nn.log_softmax(a, axis), lambda a: np.log(_softmax(a, axis)), x, schedule=how)


@pytest.mark.parametrize(("shape", "axis"), [((5, 7, 33), (1, 2)), ((130, 257), (1,))])
def test_layer_and_rms_norm(shape: tuple[int, ...], axis: tuple[int, ...]) -> None:
    x, part = data(*shape) + 3, [shape[d] for d in axis]

    def layer(a, g, b):
        mean, var = a.mean(axis, keepdims=True), a.var(axis, keepdims=True)
        return (a - mean) / np.sqrt(var + 1e-5) * g + b

    def rms(a, g):
        return a / np.sqrt((a * a).mean(axis, keepdims=True) + 1e-5) * g

    how = generic.schedule_layer_norm
    check(lambda a, g, b: topi.nn.layer_norm(a, g, b, axis), layer, x, data(*part), data(*part), schedule=how)
    check(lambda a, g: topi.nn.rms_norm(a, g, axis), rms, x, data(*part), schedule=how)


# ----------------------------------------------------------------------------------- errors


def like(*shape: int, dtype: str = "float32"):
    return te.placeholder(shape, dtype, name="X")


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: topi.squeeze(like(2, 3), 0), "squeeze of dimension 0 of 'X' (2, 3), not 1"),
        (lambda: topi.split(like(5), 2), "split of 5 elements into 2 equal parts"),
        (lambda: topi.stack([like(2), like(3)]), "stack: 'X' is float32 (2,)"),
        (lambda: topi.take(like(3), like(2)), "take needs integer indices, 'X' is float32"),
        (lambda: topi.gather(like(3), 0, like(2, 2, dtype="int32")), "gather from (3,) needs integer indices of 1"),
        (lambda: topi.strided_slice(like(3), [0], [3], [0]), "strided_slice of (3,)"),
        (lambda: topi.layout_transform(like(2, 5), "NC", "NC2c"), "2 does not divide dimension C of 5"),
        (lambda: topi.einsum("ij,jk", like(2, 3), like(4, 5)), "'j' is 3 and 4"),
        (lambda: topi.where(like(2), like(3), 0.0), "where: shapes (2,) and (3,) do not broadcast"),
        (lambda: topi.nn.layer_norm(like(2, 3), like(2), like(2)), "layer_norm: 'X' is (2,)"),
        (lambda: topi.nn.bias_add(like(2, 3), like(2)), "bias_add: 'X' is (2,)"),
        (lambda: topi.arange(0, 3, 0), "arange with a step of 0"),
        (lambda: topi.bitwise_and(like(2), like(2)), "bitwise_and needs integers"),
    ],
)
def test_mistakes_are_named_at_the_users_line(make, text: str) -> None:
    with pytest.raises(IRError) as error:
        make()
    assert text in error.value.message
    assert __file__ in error.value.message
