"""Every operator of Relay against numpy, in the interpreter."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from compiler.faces.relay.building import create_executor
from compiler.faces.relay.nodes import Function, TupleWrapper, Var, const, var
from compiler.faces.relay.table import OPERATORS
from compiler.faces.relay.translate import to_relax
from compiler.relax.interp import run
from tunefarm import relay
from tunefarm.relay.nn import sparse_dense

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(7)


def _floats(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype("float32")


def _positive(*shape: int) -> Array:
    return (RNG.random(shape) + 0.1).astype("float32")


def _ints(high: int, *shape: int) -> Array:
    return RNG.integers(0, high, shape, dtype="int32")


def _bools(*shape: int) -> Array:
    return RNG.random(shape) < 0.5


def _of_points(name: str, data: Sequence[int], weight: Sequence[int], letters: str) -> list[tuple[Any, Any, Any]]:
    """A convolution whose windows are of one element: a sum over channels."""
    values = [_floats(*data), _floats(*weight)]
    return [(values, OPERATORS[name].make, lambda x, w: np.einsum(letters, x, w))]


def _run(build: Callable[..., Any], arrays: list[Array]) -> Any:
    params = [var(f"p{at}", shape=a.shape, dtype=str(a.dtype)) for at, a in enumerate(arrays)]
    made = build(*params)
    expr = made.astuple() if isinstance(made, TupleWrapper) else made
    return create_executor("debug").evaluate(Function(tuple(params), expr))(*arrays)


def _check(got: Any, want: Any) -> None:
    if isinstance(want, tuple | list):
        assert isinstance(got, tuple)
        assert len(got) == len(want)
        for one, other in zip(got, want):
            _check(one, other)
        return
    array = np.asarray(want)
    assert got.numpy().shape == array.shape
    np.testing.assert_allclose(got.numpy().astype("float64"), array.astype("float64"), rtol=2e-5, atol=2e-6)


def _erf(x: Array) -> Array:
    import math

    return np.vectorize(math.erf)(x).astype("float32")


_UNARY: dict[str, tuple[Callable[[Array], Any], Callable[..., Array]]] = {
    "abs": (np.abs, _floats),
    "acos": (np.arccos, lambda *s: _positive(*s) * 0.8),
    "acosh": (np.arccosh, lambda *s: _positive(*s) + 1),
    "asin": (np.arcsin, lambda *s: _positive(*s) * 0.8),
    "asinh": (np.arcsinh, _floats),
    "atan": (np.arctan, _floats),
    "atanh": (np.arctanh, lambda *s: _positive(*s) * 0.8),
    "bitwise_not": (np.invert, lambda *s: _ints(9, *s)),
    "ceil": (np.ceil, _floats),
    "copy": (np.copy, _floats),
    "cos": (np.cos, _floats),
    "cosh": (np.cosh, _floats),
    "device_copy": (np.copy, _floats),
    "erf": (_erf, _floats),
    "exp": (np.exp, _floats),
    "floor": (np.floor, _floats),
    "isfinite": (np.isfinite, _floats),
    "isinf": (np.isinf, _floats),
    "isnan": (np.isnan, _floats),
    "log": (np.log, _positive),
    "log10": (np.log10, _positive),
    "log2": (np.log2, _positive),
    "logical_not": (np.logical_not, _bools),
    "negative": (np.negative, _floats),
    "ones_like": (np.ones_like, _floats),
    "round": (np.round, _floats),
    "rsqrt": (lambda x: 1 / np.sqrt(x), _positive),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), _floats),
    "sign": (np.sign, _floats),
    "sin": (np.sin, _floats),
    "sinh": (np.sinh, _floats),
    "sqrt": (np.sqrt, _positive),
    "tan": (np.tan, _floats),
    "tanh": (np.tanh, _floats),
    "trunc": (np.trunc, _floats),
    "zeros_like": (np.zeros_like, _floats),
    "nn.relu": (lambda x: np.maximum(x, 0), _floats),
    "nn.silu": (lambda x: x / (1 + np.exp(-x)), _floats),
    "nn.gelu": (lambda x: x * (1 + _erf(x / np.sqrt(2))) / 2, _floats),
    "nn.fast_gelu": (lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))), _floats),
    "nn.batch_flatten": (lambda x: x.reshape(x.shape[0], -1), _floats),
    "nn.dropout": (np.copy, _floats),
    "squeeze": (np.squeeze, _floats),
    "transpose": (np.transpose, _floats),
    "ndarray_size": (np.size, _floats),
    "shape_of": (lambda x: np.array(x.shape), _floats),
}
_BINARY: dict[str, tuple[Callable[[Array, Array], Any], Callable[..., Array]]] = {
    "add": (np.add, _floats),
    "bitwise_and": (np.bitwise_and, lambda *s: _ints(9, *s)),
    "bitwise_or": (np.bitwise_or, lambda *s: _ints(9, *s)),
    "bitwise_xor": (np.bitwise_xor, lambda *s: _ints(9, *s)),
    "divide": (np.divide, _positive),
    "equal": (np.equal, lambda *s: _ints(2, *s)),
    "floor_divide": (np.floor_divide, _positive),
    "floor_mod": (np.mod, _positive),
    "greater": (np.greater, _floats),
    "greater_equal": (np.greater_equal, _floats),
    "left_shift": (np.left_shift, lambda *s: _ints(4, *s)),
    "less": (np.less, _floats),
    "less_equal": (np.less_equal, _floats),
    "logical_and": (np.logical_and, _bools),
    "logical_or": (np.logical_or, _bools),
    "logical_xor": (np.logical_xor, _bools),
    "maximum": (np.maximum, _floats),
    "minimum": (np.minimum, _floats),
    "mod": (np.fmod, _positive),
    "multiply": (np.multiply, _floats),
    "not_equal": (np.not_equal, lambda *s: _ints(2, *s)),
    "power": (np.power, _positive),
    "right_shift": (np.right_shift, lambda *s: _ints(4, *s)),
    "subtract": (np.subtract, _floats),
    "trunc_divide": (lambda a, b: np.trunc(a / b), _positive),
    "trunc_mod": (np.fmod, _positive),
}


@pytest.mark.parametrize("name", _UNARY)
def test_one_argument(name: str) -> None:
    want, make = _UNARY[name]
    array = make(2, 1, 3)
    _check(_run(OPERATORS[name].make, [array]), want(array))


@pytest.mark.parametrize("name", _BINARY)
def test_two_arguments_broadcast(name: str) -> None:
    want, make = _BINARY[name]
    a, b = make(2, 1, 3), make(4, 1)
    _check(_run(OPERATORS[name].make, [a, b]), want(a, b))


def _over(want: Callable[..., Any]) -> tuple[list[Array], Callable[..., Any]]:
    return [_positive(2, 3, 4)], want


def _logsumexp(x: Array, axis: Any, keepdims: bool) -> Array:
    return np.log(np.sum(np.exp(x), axis=axis, keepdims=keepdims))


@pytest.mark.parametrize("name", ["sum", "max", "min", "mean", "prod", "variance", "std", "logsumexp", "all", "any"])
def test_reductions(name: str) -> None:
    known: dict[str, Callable[..., Any]] = {
        "logsumexp": lambda x, axis, keepdims: _logsumexp(x, axis, keepdims),
        "variance": np.var,
    }
    rule = known.get(name) or getattr(np, name)
    array = _bools(2, 3, 4) if name in ("all", "any") else _positive(2, 3, 4)
    make = OPERATORS[name].make
    for axis, keepdims in ((None, False), (1, True), ((0, 2), False)):
        want = rule(array, axis=axis, keepdims=keepdims)
        _check(_run(lambda x, axis=axis, keepdims=keepdims: make(x, axis, keepdims), [array]), want)
    _check(_run(lambda x: make(x, 1, exclude=True), [array]), rule(array, axis=(0, 2), keepdims=False))


def _pooled(x: Array, kind: Callable[..., Any]) -> Array:
    return kind(kind(x.reshape(1, 2, 3, 2, 2, 2), axis=5), axis=3)  # type: ignore[no-any-return]


def _matrices() -> tuple[Array, Array]:
    dense = _floats(3, 6)
    sparse = _floats(4, 6) * (RNG.random((4, 6)) < 0.4)
    return dense, sparse.astype("float32")


def _csr(matrix: Array) -> tuple[Array, Array, Array]:
    data = matrix[matrix != 0]
    return (
        data,
        np.nonzero(matrix)[1].astype("int32"),
        np.concatenate([[0], np.cumsum((matrix != 0).sum(1))]).astype("int32"),
    )


X = _floats(2, 3, 4)
IMAGE = _floats(1, 2, 6, 4)
SCALE = [_positive(2), _floats(2), _floats(2), _positive(2)]
CASES: dict[str, list[tuple[list[Array], Callable[..., Any], Callable[..., Any]]]] = {
    "cast": [([X], lambda x: x.astype("int32"), lambda x: x.astype("int32"))],
    "cast_like": [([X, _ints(3, 2)], OPERATORS["cast_like"].make, lambda x, y: x.astype("int32"))],
    "clip": [([X], lambda x: relay.clip(x, -0.5, 0.5), lambda x: np.clip(x, -0.5, 0.5))],
    "where": [([_bools(2, 3, 4), X, _floats(4)], OPERATORS["where"].make, np.where)],
    "full_like": [([X], lambda x: relay.full_like(x, const(2.5)), lambda x: np.full_like(x, 2.5))],
    "full": [([], lambda: relay.full(const(2), (2, 3), "float32"), lambda: np.full((2, 3), 2.0))],
    "zeros": [([], lambda: relay.zeros((2, 3), "int32"), lambda: np.zeros((2, 3)))],
    "ones": [([], lambda: relay.ones((2, 3), "int32"), lambda: np.ones((2, 3)))],
    "arange": [
        ([], lambda: relay.arange(const(5.0)), lambda: np.arange(5.0)),
        ([], lambda: relay.arange(const(1), const(9), const(3), dtype="int32"), lambda: np.arange(1, 9, 3)),
    ],
    "one_hot": [
        (
            [_ints(4, 2, 3)],
            lambda i: relay.one_hot(i, const(2.0), const(-1.0), 4, -1, "float32"),
            lambda i: np.where(np.eye(4)[i] > 0, 2, -1),
        ),
        ([_ints(4, 3)], lambda i: relay.one_hot(i, const(1), const(0), 4, 0, "int32"), lambda i: np.eye(4)[i].T),
    ],
    "argmax": [
        ([X], lambda x: relay.argmax(x, axis=1), lambda x: x.argmax(1)),
        (
            [_ints(2, 2, 5)],
            lambda x: relay.argmax(x, axis=1, select_last_index=True),
            lambda x: 4 - x[:, ::-1].argmax(1),
        ),
    ],
    "argmin": [([X], lambda x: relay.argmin(x, axis=-1, keepdims=True), lambda x: x.argmin(-1)[..., None])],
    "cumsum": [([X], lambda x: relay.cumsum(x, 1), lambda x: np.cumsum(x, 1))],
    "cumprod": [([X], lambda x: relay.cumprod(x, 2), lambda x: np.cumprod(x, 2))],
    "sort": [([X], lambda x: relay.sort(x, 1, is_ascend=False), lambda x: -np.sort(-x, 1))],
    "argsort": [([X], lambda x: relay.argsort(x, 1), lambda x: np.argsort(x, 1))],
    "topk": [
        ([X], lambda x: relay.topk(x, 2), lambda x: (-np.sort(-x, -1)[..., :2], np.argsort(-x, -1)[..., :2])),
        ([X], lambda x: relay.topk(x, 2, ret_type="values", is_ascend=True), lambda x: np.sort(x, -1)[..., :2]),
    ],
    "unique": [
        (
            [np.array([3, 1, 3, 2], "int32")],
            lambda x: relay.unique(x, return_counts=True),
            lambda x: tuple(map(np.array, ([1, 2, 3, 0], [1, 3, 0, 0], [2, 0, 2, 1], [3], [1, 1, 2, 0]))),
        ),
        (
            [np.array([3, 1, 3, 2], "int32")],
            lambda x: relay.unique(x, is_sorted=False, return_counts=True),
            lambda x: tuple(map(np.array, ([3, 1, 2, 0], [0, 1, 3, 0], [0, 1, 0, 2], [3], [2, 1, 1, 0]))),
        ),
    ],
    "expand_dims": [
        ([X], lambda x: relay.expand_dims(x, 1, 2), lambda x: x[:, None, None]),
        ([X], lambda x: relay.expand_dims(x, -1), lambda x: x[..., None]),
    ],
    "reshape": [
        ([X], lambda x: relay.reshape(x, (0, -1)), lambda x: x.reshape(2, 12)),
        ([X], lambda x: relay.reshape(x, (-3, -2)), lambda x: x.reshape(6, 4)),
        ([X], lambda x: relay.reshape(x, (-4, 1, -1, -2)), lambda x: x.reshape(1, 2, 3, 4)),
        ([X], lambda x: relay.reshape(x, const(np.array([4, 6]))), lambda x: x.reshape(4, 6)),
    ],
    "reshape_like": [
        ([X, _floats(6, 4)], OPERATORS["reshape_like"].make, lambda x, y: x.reshape(6, 4)),
        ([X, _floats(4, 3)], lambda x, y: relay.reshape_like(x, y, 1, 3, 0, 2), lambda x, y: x.reshape(2, 4, 3)),
    ],
    "broadcast_to": [
        ([_floats(3, 1)], lambda x: relay.broadcast_to(x, (2, 3, 4)), lambda x: np.broadcast_to(x, (2, 3, 4)))
    ],
    "broadcast_to_like": [
        ([_floats(3, 1), X], OPERATORS["broadcast_to_like"].make, lambda x, y: np.broadcast_to(x, y.shape))
    ],
    "collapse_sum_like": [
        ([X, _floats(3, 1)], OPERATORS["collapse_sum_like"].make, lambda x, y: x.sum((0, 2))[:, None])
    ],
    "collapse_sum_to": [([X], lambda x: relay.collapse_sum_to(x, (3, 1)), lambda x: x.sum((0, 2))[:, None])],
    "concatenate": [
        ([X, _floats(2, 1, 4)], lambda x, y: relay.concatenate([x, y], 1), lambda x, y: np.concatenate([x, y], 1))
    ],
    "stack": [([X, X + 1], lambda x, y: relay.stack([x, y], 1), lambda x, y: np.stack([x, y], 1))],
    "einsum": [([_floats(2, 3), _floats(3, 4)], lambda x, y: relay.einsum([x, y], "ij,jk->ik"), lambda x, y: x @ y)],
    "split": [
        ([X], lambda x: relay.split(x, 2, 2), lambda x: np.split(x, 2, 2)),
        ([X], lambda x: relay.split(x, (1, 3), 2), lambda x: np.split(x, [1, 3], 2)),
    ],
    "strided_slice": [
        ([X], lambda x: relay.strided_slice(x, [0, 1], [2, 3], [1, 1]), lambda x: x[0:2, 1:3]),
        ([X], lambda x: relay.strided_slice(x, [1], [-1], axes=[2], slice_mode="size"), lambda x: x[..., 1:]),
        (
            [X],
            lambda x: relay.strided_slice(x, const([3]), const([0]), const([-2]), axes=[2]),
            lambda x: x[..., 3:0:-2],
        ),
    ],
    "slice_like": [
        ([X, _floats(1, 2, 3)], OPERATORS["slice_like"].make, lambda x, y: x[:1, :2, :3]),
        ([X, _floats(1, 2, 3)], lambda x, y: relay.slice_like(x, y, axes=(-1,)), lambda x, y: x[..., :3]),
    ],
    "take": [
        ([X, _ints(3, 2, 2)], lambda x, i: relay.take(x, i, 1), lambda x, i: np.take(x, i, 1)),
        ([X, np.array([99, 1], "int32")], OPERATORS["take"].make, lambda x, i: np.take(x, i, mode="clip")),
    ],
    "gather": [([X, _ints(3, 2, 2, 4)], lambda x, i: relay.gather(x, 1, i), lambda x, i: np.take_along_axis(x, i, 1))],
    "gather_nd": [([X, _ints(2, 2, 5)], OPERATORS["gather_nd"].make, lambda x, i: x[i[0], i[1]])],
    "scatter_elements": [
        (
            [np.zeros((3, 4), "float32"), np.array([[2, 0, 1, 2]], "int64"), _floats(1, 4)],
            lambda d, i, u: relay.scatter_elements(d, i, u, 0, "add"),
            lambda d, i, u: np.stack([np.where(i[0] == r, u[0], 0) for r in range(3)]),
        )
    ],
    "scatter_nd": [
        (
            [np.zeros((3, 4), "float32"), np.array([[2, 0], [1, 3]], "int32"), _floats(2)],
            OPERATORS["scatter_nd"].make,
            lambda d, i, u: np.array(
                [[u[1] if (r, c) == (0, 3) else u[0] if (r, c) == (2, 1) else 0 for c in range(4)] for r in range(3)]
            ),
        )
    ],
    "repeat": [([X], lambda x: relay.repeat(x, 2, 1), lambda x: np.repeat(x, 2, 1))],
    "tile": [([X], lambda x: relay.tile(x, (2, 1, 2)), lambda x: np.tile(x, (2, 1, 2)))],
    "reverse": [([X], lambda x: relay.reverse(x, 1), lambda x: x[:, ::-1])],
    "meshgrid": [
        (
            [_floats(2), _floats(3)],
            lambda x, y: relay.meshgrid([x, y]),
            lambda x, y: tuple(np.meshgrid(x, y, indexing="ij")),
        )
    ],
    "trilu": [
        ([X], lambda x: relay.trilu(x, const(1)), lambda x: np.triu(x, 1)),
        ([X], lambda x: relay.trilu(x, const(0), upper=False), np.tril),
    ],
    "argwhere": [([np.array([[0, 1, 2], [3, 0, 0]], "int32")], OPERATORS["argwhere"].make, np.argwhere)],
    "sequence_mask": [
        (
            [_floats(3, 2, 2), np.array([1, 2], "int32")],
            lambda x, n: relay.sequence_mask(x, n, -1.0),
            lambda x, n: np.where(np.arange(3)[:, None, None] < n[None, :, None], x, -1),
        )
    ],
    "sparse_to_dense": [
        (
            [np.array([[0, 1], [2, 3]], "int32"), _floats(2)],
            lambda i, v: relay.sparse_to_dense(i, (3, 4), v, const(9.0)),
            lambda i, v: np.array(
                [[v[0] if (r, c) == (0, 1) else v[1] if (r, c) == (2, 3) else 9 for c in range(4)] for r in range(3)]
            ),
        )
    ],
    "nn.dense": [([_floats(2, 3), _floats(4, 3)], OPERATORS["nn.dense"].make, lambda x, w: x @ w.T)],
    "nn.matmul": [
        (
            [_floats(3, 2), _floats(4, 3)],
            lambda a, b: relay.nn.matmul(a, b, transpose_a=True, transpose_b=True),
            lambda a, b: a.T @ b.T,
        )
    ],
    "nn.batch_matmul": [
        ([_floats(2, 3, 4), _floats(2, 5, 4)], OPERATORS["nn.batch_matmul"].make, lambda a, b: a @ b.transpose(0, 2, 1))
    ],
    "nn.bias_add": [
        ([IMAGE, _floats(2)], OPERATORS["nn.bias_add"].make, lambda x, b: x + b[:, None, None]),
        ([X, _floats(4)], lambda x, b: relay.nn.bias_add(x, b, axis=-1), lambda x, b: x + b),
    ],
    "nn.softmax": [([X], lambda x: relay.nn.softmax(x, 1), lambda x: np.exp(x) / np.exp(x).sum(1, keepdims=True))],
    "nn.fast_softmax": [
        ([X], OPERATORS["nn.fast_softmax"].make, lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True))
    ],
    "nn.log_softmax": [([X], OPERATORS["nn.log_softmax"].make, lambda x: x - np.log(np.exp(x).sum(-1, keepdims=True)))],
    "nn.leaky_relu": [([X], lambda x: relay.nn.leaky_relu(x, 0.2), lambda x: np.where(x > 0, x, 0.2 * x))],
    "nn.prelu": [([X, _floats(3)], OPERATORS["nn.prelu"].make, lambda x, a: np.where(x > 0, x, a[:, None] * x))],
    "nn.batch_norm": [
        (
            [IMAGE, *SCALE],
            lambda *a: relay.nn.batch_norm(*a)[0],
            lambda x, g, b, m, v: (
                (x - m[:, None, None]) / np.sqrt(v + 1e-5)[:, None, None] * g[:, None, None] + b[:, None, None]
            ),
        )
    ],
    "nn.layer_norm": [
        (
            [X, _floats(4), _floats(4)],
            OPERATORS["nn.layer_norm"].make,
            lambda x, g, b: (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * g + b,
        )
    ],
    "nn.instance_norm": [
        (
            [IMAGE, _floats(2), _floats(2)],
            OPERATORS["nn.instance_norm"].make,
            lambda x, g, b: (
                (x - x.mean((2, 3), keepdims=True)) / np.sqrt(x.var((2, 3), keepdims=True) + 1e-5) * g[:, None, None]
                + b[:, None, None]
            ),
        )
    ],
    "nn.group_norm": [
        (
            [IMAGE, _floats(2), _floats(2)],
            lambda x, g, b: relay.nn.group_norm(x, g, b, 1),
            lambda x, g, b: (x - x.mean()) / np.sqrt(x.var() + 1e-5) * g[:, None, None] + b[:, None, None],
        )
    ],
    "nn.l2_normalize": [
        ([X], lambda x: relay.nn.l2_normalize(x, 1e-6, [1]), lambda x: x / np.sqrt((x * x).sum(1, keepdims=True)))
    ],
    "nn.lrn": [
        (
            [_floats(1, 3, 2, 2)],
            lambda x: relay.nn.lrn(x, 3, 1, 1.0, 0.3, 0.5),
            lambda x: x / np.sqrt(1 + 0.1 * np.stack([(x * x)[:, max(c - 1, 0) : c + 2].sum(1) for c in range(3)], 1)),
        )
    ],
    "nn.pad": [
        (
            [X],
            lambda x: relay.nn.pad(x, ((0, 1), (2, 0), (0, 0)), 1.5),
            lambda x: np.pad(x, ((0, 1), (2, 0), (0, 0)), constant_values=1.5),
        )
    ],
    "nn.mirror_pad": [
        (
            [X],
            lambda x: relay.nn.mirror_pad(x, ((0, 0), (1, 2), (2, 1))),
            lambda x: np.pad(x, ((0, 0), (1, 2), (2, 1)), "symmetric"),
        ),
        (
            [X],
            lambda x: relay.nn.mirror_pad(x, ((0, 0), (1, 2), (2, 1)), "REFLECT"),
            lambda x: np.pad(x, ((0, 0), (1, 2), (2, 1)), "reflect"),
        ),
    ],
    "nn.depth_to_space": [
        (
            [_floats(1, 8, 2, 3)],
            lambda x: relay.nn.depth_to_space(x, 2),
            lambda x: x.reshape(1, 2, 2, 2, 2, 3).transpose(0, 3, 4, 1, 5, 2).reshape(1, 2, 4, 6),
        ),
        (
            [_floats(1, 8, 2, 3)],
            lambda x: relay.nn.depth_to_space(x, 2, mode="CRD"),
            lambda x: x.reshape(1, 2, 2, 2, 2, 3).transpose(0, 1, 4, 2, 5, 3).reshape(1, 2, 4, 6),
        ),
    ],
    "nn.space_to_depth": [
        (
            [_floats(1, 2, 4, 6)],
            lambda x: relay.nn.space_to_depth(x, 2),
            lambda x: x.reshape(1, 2, 2, 2, 3, 2).transpose(0, 3, 5, 1, 2, 4).reshape(1, 8, 2, 3),
        )
    ],
    "nn.cross_entropy": [
        ([_positive(2, 3), _floats(2, 3)], OPERATORS["nn.cross_entropy"].make, lambda p, t: -(np.log(p) * t).sum() / 2)
    ],
    "nn.cross_entropy_with_logits": [
        (
            [_floats(2, 3), _floats(2, 3)],
            OPERATORS["nn.cross_entropy_with_logits"].make,
            lambda p, t: -(p * t).sum() / 2,
        )
    ],
    "nn.nll_loss": [
        (
            [_floats(2, 3), np.array([2, 0], "int32"), _positive(3)],
            OPERATORS["nn.nll_loss"].make,
            lambda p, t, w: -(p[[0, 1], t] * w[t]).sum() / w[t].sum(),
        )
    ],
    "nn.dilate": [
        (
            [_floats(2, 3)],
            lambda x: relay.nn.dilate(x, (1, 3), 9.0),
            lambda x: np.where(np.arange(7) % 3 == 0, np.repeat(x, 3, 1)[:, :7], 9.0),
        )
    ],
    "nn.global_avg_pool2d": [
        ([IMAGE], OPERATORS["nn.global_avg_pool2d"].make, lambda x: x.mean((2, 3), keepdims=True))
    ],
    "nn.global_max_pool2d": [([IMAGE], OPERATORS["nn.global_max_pool2d"].make, lambda x: x.max((2, 3), keepdims=True))],
    "nn.max_pool2d": [([IMAGE], lambda x: relay.nn.max_pool2d(x, (2, 2), (2, 2)), lambda x: _pooled(x, np.max))],
    "nn.avg_pool2d": [([IMAGE], lambda x: relay.nn.avg_pool2d(x, (2, 2), (2, 2)), lambda x: _pooled(x, np.mean))],
    "nn.adaptive_avg_pool2d": [
        ([IMAGE], lambda x: relay.nn.adaptive_avg_pool2d(x, (3, 2)), lambda x: _pooled(x, np.mean))
    ],
    "nn.adaptive_max_pool2d": [
        ([IMAGE], lambda x: relay.nn.adaptive_max_pool2d(x, (3, 2)), lambda x: _pooled(x, np.max))
    ],
    "nn.conv2d": [
        (
            [IMAGE, _floats(3, 2, 1, 1)],
            lambda x, w: relay.nn.conv2d(x, w, kernel_size=(1, 1), channels=3),
            lambda x, w: np.einsum("bchw,ocij->bohw", x, w),
        )
    ],
    "nn.conv1d": _of_points("nn.conv1d", (1, 2, 5), (3, 2, 1), "bcw,oci->bow"),
    "nn.conv3d": _of_points("nn.conv3d", (1, 2, 2, 2, 3), (3, 2, 1, 1, 1), "bcdhw,ocijk->bodhw"),
    "nn.conv1d_transpose": _of_points("nn.conv1d_transpose", (1, 2, 5), (2, 3, 1), "bcw,coi->bow"),
    "nn.conv2d_transpose": [
        (
            [IMAGE, _floats(2, 3, 1, 1)],
            OPERATORS["nn.conv2d_transpose"].make,
            lambda x, w: np.einsum("bchw,coij->bohw", x, w),
        )
    ],
    "nn.conv3d_transpose": _of_points("nn.conv3d_transpose", (1, 2, 2, 2, 3), (2, 3, 1, 1, 1), "bcdhw,coijk->bodhw"),
    "nn.upsampling": [([IMAGE], lambda x: relay.nn.upsampling(x, 2, 3), lambda x: x.repeat(2, 2).repeat(3, 3))],
    "nn.upsampling3d": [
        (
            [_floats(1, 1, 2, 2, 2)],
            lambda x: relay.nn.upsampling3d(x, 2, 2, 2),
            lambda x: x.repeat(2, 2).repeat(2, 3).repeat(2, 4),
        )
    ],
    "image.resize2d": [
        (
            [IMAGE],
            lambda x: relay.image.resize2d(
                x, (12, 8), method="nearest_neighbor", coordinate_transformation_mode="asymmetric"
            ),
            lambda x: x.repeat(2, 2).repeat(2, 3),
        )
    ],
    "image.resize3d": [([_floats(1, 1, 2, 2, 2)], lambda x: relay.image.resize3d(x, (2, 2, 2)), np.copy)],
    "image.grid_sample": [
        (
            [IMAGE, np.stack(np.meshgrid(np.linspace(-1, 1, 4), np.linspace(-1, 1, 6)))[None].astype("float32")],
            OPERATORS["image.grid_sample"].make,
            lambda x, g: x,
        )
    ],
    "nn.sparse_dense": [
        (
            (lambda dense, sparse: [dense, *_csr(sparse)])(*_matrices()),
            lambda x, d, i, p: sparse_dense(x, (d, i, p)),
            lambda x, d, i, p: x @ _plain(d, i, p, 6).T,
        ),
        (
            (lambda dense, sparse: [dense, *_csr(sparse)])(*_matrices()),
            lambda x, d, i, p: sparse_dense(x, (d, i, p), sparse_lhs=True),
            lambda x, d, i, p: _plain(d, i, p, 6) @ x.T,
        ),
        (
            [_floats(3, 6), _floats(2, 2, 3), np.array([1, 0], "int32"), np.array([0, 1, 2], "int32")],
            lambda x, d, i, p: sparse_dense(x, (d, i, p)),
            lambda x, d, i, p: np.concatenate([x[:, 3:] @ d[0].T, x[:, :3] @ d[1].T], 1),
        ),
    ],
}
SAME_RULE = {
    f"nn.{kind}_pool{dims}d": f"nn.{kind}_pool2d"
    for kind in ("max", "avg", "global_max", "global_avg", "adaptive_max", "adaptive_avg")
    for dims in (1, 3)
}
"""Operators made by the rule of another one, which is tested."""


def _plain(data: Array, indices: Array, indptr: Array, width: int) -> Array:
    made = np.zeros((len(indptr) - 1, width), "float32")
    for row in range(len(indptr) - 1):
        made[row, indices[indptr[row] : indptr[row + 1]]] = data[indptr[row] : indptr[row + 1]]
    return made


@pytest.mark.parametrize("name", CASES)
def test_values(name: str) -> None:
    for arrays, build, want in CASES[name]:
        _check(_run(build, arrays), want(*arrays))


@pytest.mark.parametrize("name", sorted(SAME_RULE))
def test_one_and_three_dimensions_run(name: str) -> None:
    dims = 1 if "1d" in name else 3
    array = _floats(1, 2, *[4] * dims)
    attrs: dict[str, Any] = {"output_size": (2,) * dims} if "adaptive" in name else {}
    if "global" not in name and "adaptive" not in name:
        attrs = {"pool_size": (2,) * dims, "strides": (2,) * dims}
    rule = np.max if "max" in name else np.mean
    whole = array.reshape(1, 2, *[part for _ in range(dims) for part in ((1, 4) if "global" in name else (2, 2))])
    want = rule(whole, axis=tuple(range(3, 3 + 2 * dims, 2)))  # type: ignore[operator]
    _check(_run(lambda x: OPERATORS[name].make(x, **attrs), [array]), want)


def test_every_operator_is_tried() -> None:
    reductions = {"sum", "max", "min", "mean", "prod", "variance", "std", "logsumexp", "all", "any"}
    assert set(OPERATORS) == {*_UNARY, *_BINARY, *CASES, *SAME_RULE, *reductions}


def test_translations_of_symbolic_sizes() -> None:
    x = Var("x", relay.TensorType((relay.Any(), 3), "float32"))
    module = to_relax(Function((x,), relay.nn.dense(x, const(_floats(4, 3)))))
    for rows in (1, 5):
        assert run(module, _floats(rows, 3)).shape == (rows, 4)  # type: ignore[arg-type,union-attr]
