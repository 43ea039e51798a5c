"""Gradients of random graphs, against differences of what the graphs compute."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.relax.analysis import problems
from compiler.relax.interp import run
from tests.kit.compiler.random_images import random_image_graph
from tests.kit.fuzzing import examples
from tunefarm.relax import (
    BlockBuilder,
    TensorStructInfo,
    Tuple,
    TupleGetItem,
    TupleStructInfo,
    Var,
    const,
    op,
    transform,
)

STEP = 1e-6
ROWS = 3


class _Maker:
    """A graph over (rows, 4) matrices: a parameter, a tuple of two others, shared values, tuples, marks."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.bb = BlockBuilder()

    def module(self, count: int) -> Any:
        def tensor(*shape: Any, dtype: str = "float64") -> TensorStructInfo:
            return TensorStructInfo(shape, dtype)  # type: ignore[arg-type]

        bb, rng = self.bb, self.rng
        x, i = Var("x", tensor(ROWS, 4)), Var("i", tensor(ROWS, dtype="int64"))
        pair = Var("pair", TupleStructInfo([tensor(4, 4), tensor(4)]))
        with bb.function("main", [x, pair, i]):
            with bb.dataflow():
                self.w, self.b = bb.emit(TupleGetItem(pair, 0)), bb.emit(TupleGetItem(pair, 1))
                self.values, self.i = [x], i
                for _ in range(count):
                    self.values.append(bb.emit(self.step()))
                weighted = bb.emit(op.multiply(self.values[-1], const(_numbers(ROWS, 4))))
                outs = [bb.emit_output(rng.choice((op.sum, op.mean))(weighted)), bb.emit_output(self.values[1])]
            bb.emit_func_output(Tuple(tuple(outs)))
        return bb.get()

    def step(self) -> Any:
        rng, bb, w, b = self.rng, self.bb, self.w, self.b
        a, other = rng.choice(self.values[-3:]), rng.choice(self.values)

        def halves() -> list[Any]:
            parts = bb.emit(op.split(a, 2, axis=1))
            return [bb.emit(TupleGetItem(parts, n)) for n in (1, 0)]

        return rng.choice([
            lambda: op.tanh(a), lambda: op.add(a, other), lambda: op.multiply(op.sigmoid(a), other),
            lambda: op.subtract(a, b), lambda: op.matmul(op.tanh(a), w), lambda: op.matmul(a, op.permute_dims(w)),
            lambda: op.nn.softmax(a), lambda: op.nn.layer_norm(a, b, b, axes=-1), lambda: op.nn.gelu(a),
            lambda: op.divide(a, op.add(op.square(other), const(1.0, "float64"))),
            lambda: op.subtract(a, op.mean(other, axis=1, keepdims=True)),
            lambda: op.concat(halves(), axis=1), lambda: op.concat(Tuple(tuple(halves())), axis=1),
            lambda: op.reshape(op.permute_dims(op.reshape(a, (4, ROWS))), (ROWS, 4)),
            lambda: op.strided_slice(op.concat([a, other], axis=1), axes=[1], begin=[2], end=[6]),
            lambda: op.take(a, self.i, axis=0), lambda: op.where(op.greater(a, other), a, op.negative(other)),
            lambda: op.subtract(a, op.floor(a)), lambda: op.add(a, op.grad.no_grad(a)),
            lambda: op.grad.start_checkpoint(a), lambda: op.grad.end_checkpoint(a),
            lambda: op.nn.relu(op.cumsum(a, axis=0)), lambda: op.max(op.stack([a, other], axis=2), axis=2),
        ])()  # fmt: skip


def _numbers(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape)


@settings(max_examples=examples(15), deadline=None)
@given(st.integers(0, 1 << 30), st.integers(2, 9))
def test_gradients_are_what_differences_say(seed: int, count: int) -> None:
    maker = _Maker(seed)
    mod = maker.module(count)
    made = transform.Gradient("main")(mod)
    assert problems(made) == []
    x, w, b = (_numbers(*shape, seed=seed + n) for n, shape in enumerate(((ROWS, 4), (4, 4), (4,))))
    rows = np.array([0, 2, 2])
    value, (gx, (gw, gb), gi) = run(made, x, (w, b), rows, func="main_adjoint")
    assert not gi.any()
    np.testing.assert_allclose(value[0], run(mod, x, (w, b), rows)[0])
    dx, dw, db = (_numbers(*a.shape, seed=seed + 7 + n) for n, a in enumerate((x, w, b)))
    fixed = _without_stops(mod)
    if fixed is None:
        return
    ends = [run(mod, x + s * dx, (w + s * dw, b + s * db), rows)[0] for s in (STEP, -STEP)]
    slope = (gx * dx).sum() + (gw * dw).sum() + (gb * db).sum()
    np.testing.assert_allclose(slope, (ends[0] - ends[1]) / (2 * STEP), rtol=1e-4, atol=1e-5)


def _without_stops(mod: Any) -> Any:
    """The module, unless a value of it stops gradients: then differences are no measure."""
    return None if "no_grad" in mod.script() else mod


@settings(max_examples=examples(6), deadline=None)
@given(st.integers(0, 1 << 30))
def test_gradients_of_graphs_over_images(seed: int) -> None:
    """Convolutions, pooling, norms, tuples; two dataflow blocks."""
    graph = random_image_graph(seed, count=5, dtype="float64", scalar=True)
    made = transform.Gradient("main")(graph.module)
    assert problems(made) == []
    _, slopes = run(made, *graph.args, func="main_adjoint")
    along = [_numbers(*a.shape, seed=seed + n) for n, a in enumerate(graph.args)]
    ends = [run(graph.module, *[a + s * d for a, d in zip(graph.args, along)]) for s in (STEP, -STEP)]
    slope = sum((g * d).sum() for g, d in zip(slopes, along))
    np.testing.assert_allclose(slope, (ends[0] - ends[1]) / (2 * STEP), rtol=1e-4, atol=1e-5)
