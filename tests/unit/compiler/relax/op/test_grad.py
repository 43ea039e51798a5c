"""Operators that gradients are made of; which operators have gradients; gradients beyond the cases of operators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from compiler.errors import IRError
from compiler.relax import op
from compiler.relax.block_builder import BlockBuilder
from compiler.relax.interp import run
from compiler.relax.nodes import Call, TensorStructInfo, Tuple, Var, const
from compiler.relax.op.core.registry import OPERATORS, RefusedPart, operator_of
from compiler.tir import nodes as n
from tests.kit.compiler.relax_gradients import check_gradient
from tests.kit.compiler.relax_ops import WITHOUT_ZERO, Case, check

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(4)
grad = op.grad


def taken_back(g: Array, x: Array, i: Array) -> Array:
    out = np.zeros_like(x)
    np.add.at(out, (slice(None), i), g)
    return out


def mean_pooled_back(g: Array, x: Array) -> Array:
    return np.repeat(np.repeat(g, 2, 2), 2, 3) / 4


def largest_pooled_back(g: Array, x: Array) -> Array:
    out = np.zeros_like(x)
    for b, c, i, j in np.ndindex(g.shape):
        window = x[b, c, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2]
        row, column = np.unravel_index(window.argmax(), (2, 2))
        out[b, c, 2 * i + row, 2 * j + column] += g[b, c, i, j]
    return out


def likelihood_back(g: Array, p: Array, t: Array, w: Array) -> Array:
    out = np.zeros_like(p)
    total = w[t[t != 1]].sum()
    for row, target in enumerate(t):
        if target != 1:
            out[row, target] = -g * w[target] / total
    return out


CASES = [
    Case("take_backward", lambda g, x, i: grad.take_backward(g, x, i, 1), taken_back, ["n m k", "n 3 k", "m"],
         ("float32", "float64"), fixed={2: "int64"}, values={2: lambda a: np.abs(a) % 3}, tolerance=1e-5),
    Case("max_pool2d_backward", lambda g, x: grad.max_pool2d_backward(g, x, 2, 2), largest_pooled_back,
         ["n m 2 3", "n m 4 6"], ("float32", "float64"), sizes=WITHOUT_ZERO),
    Case("avg_pool2d_backward", lambda g, x: grad.avg_pool2d_backward(g, x, 2, 2), mean_pooled_back,
         ["n m 2 3", "n m 4 6"], tolerance=1e-5),
    Case("nll_loss_backward", lambda *a: grad.nll_loss_backward(*a, ignore_index=1), likelihood_back,
         ["", "n 4", "n", "4"], ("float32", "float64"), fixed={2: "int64"},
         values={2: lambda a: np.array([0, 3, 1, 2, 0, 3, 1])[: len(a)], 3: np.abs}, sizes=WITHOUT_ZERO,
         tolerance=1e-5),
    *[Case(name, getattr(grad, name), lambda a: a, ["n m"], ("float32", "int32"))
      for name in ("no_grad", "start_checkpoint", "end_checkpoint")],
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_info_kernel_and_numpy_agree(case: Case) -> None:
    check(case)


def data(*shape: int) -> Array:
    return RNG.standard_normal(shape)


def padded(a: Array, before: int, after: int, mode: str) -> Array:
    return np.pad(a, [(0, 0), (before, after)], mode)  # type: ignore[call-overload]


def causal(q: Array, k: Array, v: Array, b: Array) -> Array:
    """Attention of 4 heads of query, 2 of key; a query sees at most 2 keys, up to its place from the end."""
    k, v = (np.repeat(a, 2, 2) for a in (k, v))
    scores = np.einsum("bihd,bjhd->bhij", q, k) * 0.5 + b
    place, key = np.arange(q.shape[1])[:, None] + k.shape[1] - q.shape[1], np.arange(k.shape[1])
    scores = np.where((key <= place) & (key > place - 2), scores, -1e30)
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("bhij,bjhd->bihd", shares / shares.sum(-1, keepdims=True), v)


def batch_normalised(x: Array, gamma: Array, beta: Array, mean: Array, variance: Array) -> list[Array]:
    own, spread = x.mean((0, 2), keepdims=True), x.var((0, 2), keepdims=True)
    made = (x - own) / np.sqrt(spread + 1e-5) * gamma[:, None] + beta[:, None]
    return [made, 0.7 * mean + 0.3 * own.ravel(), 0.7 * variance + 0.3 * spread.ravel()]


@pytest.mark.parametrize(
    ("build", "numpy", "arrays"),
    [
        (lambda x: op.prod(x, [0, 2], False), lambda a: a.prod((0, 2)), [np.array([[[0.0, 2.0]], [[3.0, 4.0]]])]),
        (lambda x: op.prod(x), np.prod, [np.array([[0.0, 2.0], [3.0, 0.0]])]),
        (lambda x: op.strided_slice(x, [0, 1], [4, -1], [0, 0], [-2, -1]), lambda a: a[4:0:-2, -1:0:-1], [data(5, 4)]),
        (lambda x: op.strided_slice(x, [1], [3], [3]), lambda a: a[:, 3:3], [data(2, 4)]),
        (lambda x, y: op.slice_scatter(x, y, 1, 4, 2, 1), None, [data(3, 5), data(3, 2)]),
        (lambda x: op.nn.pad(x, (0, 0, 2, 1), "reflect"), lambda a: padded(a, 2, 1, "reflect"), [data(2, 4)]),
        (lambda x: op.nn.pad(x, (0, 0, 2, 1), "replicate"), lambda a: padded(a, 2, 1, "edge"), [data(2, 4)]),
        (lambda x: op.nn.pad(x, (0, 0, 2, 1), "circular"), lambda a: padded(a, 2, 1, "wrap"), [data(2, 4)]),
        (lambda x: op.take(x, op_const([5, -1, 2]), 1, "clip"), lambda a: a[:, [2, 0, 2]], [data(2, 3)]),
        (lambda x: op.take(x, op_const([5, -1, 2]), 1, "wrap"), lambda a: a[:, [2, 2, 2]], [data(2, 3)]),
        (
            lambda x: op.gather_nd(x, op_const([[[1], [0]], [[2], [2]]]), 1),
            lambda a: np.stack([a[0, [1, 0]], a[1, [2, 2]]]),
            [data(2, 3, 2)],
        ),
        (
            lambda x, u: op.scatter_elements(x, op_const([[0, 1], [2, 2]]), u, 1, "mul"),
            lambda a, u: np.array([[a[0, 0] * u[0, 0], a[0, 1] * u[0, 1], a[0, 2]],
                                   [a[1, 0], a[1, 1], a[1, 2] * u[1, 0] * u[1, 1]]]),
            [data(2, 3), data(2, 2)],
        ),
        (
            lambda x, u: op.scatter_elements(x, op_const([[0, 1]]), u, 1, "update"),
            lambda a, u: np.array([[u[0, 0], u[0, 1], a[0, 2]], a[1]]),
            [data(2, 3), data(1, 2)],
        ),
        (
            lambda x, u: op.scatter_nd(x, op_const([[1], [1], [0]]), u, "add"),
            lambda a, u: a + np.array([u[2], u[0] + u[1]]),
            [data(2, 3), data(3, 3)],
        ),
        (lambda x, y: op.matmul(x, y), np.matmul, [data(3), data(2, 3, 4)]),
        (lambda x, y: op.matmul(x, y), np.matmul, [data(2, 4, 3), data(3)]),
        (lambda x, y: op.matmul(x, y), np.matmul, [data(2, 1, 4, 3), data(5, 3, 2)]),
        (
            lambda x, y: op.einsum([x, y], "ij,kj->k"),
            lambda a, b: np.einsum("ij,kj->k", a, b),
            [data(2, 3), data(4, 3)],
        ),
        (lambda x: op.einsum([x], "ij->j"), lambda a: a.sum(0), [data(2, 3)]),
        (lambda x: op.topk(x, 2, 0, "values", False), lambda a: np.sort(a, 0)[:2], [data(4, 3)]),
        (lambda x: op.cumprod(x, 1, None, True), lambda a: np.cumprod(np.hstack([a[:, :1] * 0 + 1, a[:, :-1]]), 1),
         [data(2, 4)]),
        (
            lambda *a: op.nn.attention(*a, scale=0.5, causal_mask="BottomRight", window_size=2),
            causal,
            [data(1, 3, 4, 2), data(1, 5, 2, 2), data(1, 5, 2, 3), data(4, 3, 5)],
        ),
        (
            lambda *a: op.nn.batch_norm(*a, axis=1, momentum=0.3),
            batch_normalised,
            [data(3, 2, 4), data(2), data(2), data(2), np.abs(data(2)) + 1],
        ),
        (lambda x: op.nn.softplus(x, 2.0, 1.0), lambda a: np.where(2 * a > 1, a, np.log1p(np.exp(2 * a)) / 2),
         [data(3, 4)]),
    ],
)  # fmt: skip
def test_gradients(build: Any, numpy: Any, arrays: list[Array]) -> None:
    def written(a: Array, b: Array) -> Array:
        out = a.copy()
        out[:, 1:4:2] = b
        return out

    assert check_gradient(build, numpy or written, arrays, "here") == len(arrays)


@pytest.mark.parametrize("mode", ["zeros", "border", "reflection"])
@pytest.mark.parametrize(("method", "corners"), [("bilinear", True), ("bilinear", False), ("nearest", False)])
def test_gradients_of_sampled_images(mode: str, method: str, corners: bool) -> None:
    def build(x: Any, g: Any) -> Any:
        return op.image.grid_sample(x, g, method, "NCHW", mode, corners)

    def forward(a: Array, g: Array) -> Array:
        """The operator itself, which is tested against numpy elsewhere."""
        params = [Var("x", TensorStructInfo(a.shape, "float64")), Var("g", TensorStructInfo(g.shape, "float64"))]  # type: ignore[arg-type]
        bb = BlockBuilder()
        with bb.function("main", params):
            bb.emit_func_output(bb.emit(build(*params)))
        found: Array = run(bb.get(), a, g)
        return found

    places = RNG.random((2, 2, 3, 2)) * 2.6 - 1.3
    assert check_gradient(build, forward, [data(2, 2, 4, 5), places], f"{method} {mode} {corners}") == 2


def op_const(values: Any) -> Any:
    return const(np.array(values, "int64"))


def gradients_of(call: Call, *params: Var) -> Any:
    bb = BlockBuilder()
    with bb.function("main", list(params)):
        try:
            result = bb.emit(call)
            known: Any = bb.lookup_binding(result)
            seed = bb.emit(op.ones_like(result))
            return operator_of(call.op).gradients(result, known, seed, bb)  # type: ignore[arg-type]
        finally:
            bb.emit_func_output(result)


def test_symbolic_shapes() -> None:
    rows, columns = n.Var("n", "int64"), n.Var("m", "int64")
    x = Var("x", TensorStructInfo((rows, columns), "float32"))
    y = Var("y", TensorStructInfo((columns,), "float32"))
    first, second = gradients_of(op.multiply(x, y), x, y)
    assert first.struct_info == x.struct_info
    assert second.struct_info == y.struct_info
    for call in (op.mean(x, 0), op.concat([x, x]), op.nn.softmax(x), op.nn.layer_norm(x, y, y, -1), op.flatten(x),
                 op.nn.pad(x, (1, 2, 0, 0)), op.variance(x), op.matmul(x, op.permute_dims(x))):  # fmt: skip
        found = gradients_of(call, x, y)[0]
        for slope in found.fields if isinstance(found, Tuple) else [found]:
            assert slope.struct_info == x.struct_info


def test_what_has_no_gradient_says_why() -> None:
    x, i = Var("x", TensorStructInfo((2, 3), "float32")), Var("i", TensorStructInfo((2, 3), "int64"))
    with pytest.raises(IRError, match=r"relax\.argmax has no gradient: its result is no floating point"):
        gradients_of(op.argmax(x), x)
    with pytest.raises(IRError, match=r"scatter_elements: there is none for the reduction 'max'"):
        gradients_of(op.scatter_elements(x, i, x, 0, "max"), x, i)
    with pytest.raises(IRError, match="names a dimension twice"):
        gradients_of(op.einsum([Var("x", TensorStructInfo((3, 3), "float32"))], "ii->i"), x)
    assert gradients_of(op.floor(x), x) == gradients_of(op.grad.no_grad(x), x) == (None,)
    assert gradients_of(op.matmul(i, op.permute_dims(i)), i) == (None, None)
    reasons = {e.gradient.reason for e in OPERATORS.values() if isinstance(e.gradient, RefusedPart)}
    assert not [reason for reason in reasons if "yet" in reason]
