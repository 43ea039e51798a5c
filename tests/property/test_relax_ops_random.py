"""Operators of graphs with random shapes, axes and attributes: interpreted, compiled and by numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import tunefarm as tvm
from compiler.errors import IRError
from compiler.relax.interp import run
from compiler.relax.nodes import TensorStructInfo, Var
from tests.kit.compiler.relax_gradients import check_gradient
from tests.kit.fuzzing import examples
from tunefarm import relax, tir
from tunefarm.relax import BlockBuilder, op

Array = np.ndarray[Any, Any]
Made = tuple[Callable[..., Any], Callable[..., Any], list[Array]]
"""A call of variables, what numpy makes of arrays, the arrays."""


class Draw:
    """Random choices of one case."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def size(self, least: int = 1, most: int = 6) -> int:
        return int(self.rng.integers(least, most + 1))

    def shape(self, rank: int | None = None, least: int = 1) -> tuple[int, ...]:
        return tuple(self.size(least) for _ in range(self.size(1, 4) if rank is None else rank))

    def array(self, shape: tuple[int, ...]) -> Array:
        return self.rng.standard_normal(shape)

    def axis(self, rank: int) -> int:
        return int(self.rng.integers(-rank, rank))

    def flag(self) -> bool:
        return bool(self.rng.integers(0, 2))


def reduction(draw: Draw) -> Made:
    shape = draw.shape()
    rank = len(shape)
    axes = sorted(draw.rng.choice(rank, draw.size(1, rank), replace=False).tolist())
    keep, name = draw.flag(), str(draw.rng.choice(["sum", "mean", "max", "min", "prod", "variance"]))
    made = getattr(op, name)
    function = {"variance": np.var}.get(name) or getattr(np, name)
    return (lambda x: made(x, axes, keep), lambda a: function(a, axis=tuple(axes), keepdims=keep), [draw.array(shape)])


def broadcast(draw: Draw) -> Made:
    whole = draw.shape()
    parts = [tuple(1 if draw.rng.random() < 0.3 else s for s in whole[draw.size(0, len(whole)) if n else 0 :])
             for n in range(2)]  # fmt: skip
    name = str(draw.rng.choice(["add", "subtract", "multiply", "maximum", "minimum"]))
    return getattr(op, name), getattr(np, name), [draw.array(part) for part in parts]


def slices(draw: Draw) -> Made:
    shape = draw.shape(least=2)
    axis = draw.axis(len(shape))
    size = shape[axis]
    begin, end = (int(draw.rng.integers(-size - 1, size + 2)) for _ in range(2))
    step = int(draw.rng.choice([-3, -2, -1, 1, 2, 3]))
    whole: list[Any] = [slice(None)] * len(shape)
    whole[axis] = slice(begin, end, step)
    return lambda x: op.strided_slice(x, [axis], [begin], [end], [step]), lambda a: a[tuple(whole)], [draw.array(shape)]


def joins(draw: Draw) -> Made:
    shape = list(draw.shape())
    axis = draw.axis(len(shape))
    parts = []
    for _ in range(draw.size(1, 3)):
        shape[axis] = draw.size(0, 4)
        parts.append(draw.array(tuple(shape)))
    return lambda *x: op.concat(list(x), axis), lambda *a: np.concatenate(a, axis), parts


def moves(draw: Draw) -> Made:
    shape = draw.shape()
    order = draw.rng.permutation(len(shape)).tolist()
    if draw.flag():
        return lambda x: op.permute_dims(x, order), lambda a: a.transpose(order), [draw.array(shape)]
    if draw.flag():
        return lambda x: op.reshape(x, (shape[0], -1)), lambda a: a.reshape(shape[0], -1), [draw.array(shape)]
    axis = draw.axis(len(shape))
    return lambda x: op.flip(x, axis), lambda a: np.flip(a, axis), [draw.array(shape)]


def products(draw: Draw) -> Made:
    m, k, n, batch = (draw.size() for _ in range(4))
    first = [(k,), (m, k), (batch, m, k)][draw.size(0, 2)]
    second = [(k,), (k, n), (batch, k, n), (2, 1, k, n)][draw.size(0, 3)]
    return op.matmul, np.matmul, [draw.array(first), draw.array(second)]


def gathers(draw: Draw) -> Made:
    shape = draw.shape()
    axis = draw.axis(len(shape))
    where = draw.rng.integers(0, shape[axis], draw.shape(draw.size(1, 2)))
    return lambda x, i: op.take(x, i, axis), lambda a, i: np.take(a, i, axis), [draw.array(shape), where]


def running(draw: Draw) -> Made:
    shape = draw.shape()
    axis = draw.axis(len(shape))
    if draw.flag():
        return lambda x: op.cumsum(x, axis), lambda a: np.cumsum(a, axis), [draw.array(shape)]
    return lambda x: op.sort(x, axis), lambda a: np.sort(a, axis), [draw.array(shape)]


def softmax(draw: Draw) -> Made:
    shape = draw.shape()
    axis = draw.axis(len(shape))

    def wanted(a: Array) -> Array:
        powers = np.exp(a - a.max(axis, keepdims=True))
        return powers / powers.sum(axis, keepdims=True)

    return lambda x: op.nn.softmax(x, axis), wanted, [draw.array(shape)]


def windows(draw: Draw) -> Made:
    """Convolution or pooling of one dimension, as sums over windows."""
    taps, stride, dilation, groups = draw.size(1, 3), draw.size(1, 3), draw.size(1, 2), draw.size(1, 2)
    span = (taps - 1) * dilation + 1
    before, after = draw.size(0, 2), draw.size(0, 2)
    size = max(span, draw.size(1, 9))
    channels, filters = groups * draw.size(1, 2), groups * draw.size(1, 2)
    data = draw.array((draw.size(1, 2), channels, size))
    weight = draw.array((filters, channels // groups, taps))

    def wanted(a: Array, w: Array) -> Array:
        a = np.pad(a, [(0, 0), (0, 0), (before, after)])
        places = (a.shape[2] - span) // stride + 1
        out = np.zeros((a.shape[0], filters, places))
        each, part = filters // groups, channels // groups
        for f in range(filters):
            own = a[:, f // each * part : (f // each + 1) * part]
            for p in range(places):
                out[:, f, p] = (own[:, :, p * stride : p * stride + span : dilation] * w[f]).sum((1, 2))
        return out

    return (lambda x, w: op.nn.conv1d(x, w, stride, (before, after), dilation, groups), wanted, [data, weight])


FAMILIES = (reduction, broadcast, slices, joins, moves, products, gathers, running, softmax, windows)


def check(made: Made, where: str) -> None:
    build, numpy, arrays = made
    wanted = numpy(*arrays)
    plain = [Var(f"x{i}", TensorStructInfo(a.shape, str(a.dtype))) for i, a in enumerate(arrays)]  # type: ignore[arg-type]
    first = [tir.Var("n", "int64") if d == 0 else size for d, size in enumerate(arrays[0].shape)]
    for params in (plain, [Var("x0", TensorStructInfo(first, str(arrays[0].dtype))), *plain[1:]]):
        bb = BlockBuilder()
        try:
            with bb.function("main", params):
                bb.emit_func_output(bb.emit(build(*params)))
        except IRError:
            if params is plain:
                raise
            continue  # some calls need a number: a product of n and 3, for instance
        np.testing.assert_allclose(run(bb.get(), *arrays), wanted, rtol=1e-9, atol=1e-9, err_msg=where)
        if params is plain:
            machine = relax.VirtualMachine(relax.build(bb.get(), "llvm"), tvm.cpu())
            found = machine["main"](*map(tvm.nd.array, arrays)).numpy()
            np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9, err_msg=where)
    check_gradient(build, numpy, arrays, where, directions=1)


@settings(max_examples=examples(20))
@given(st.sampled_from(FAMILIES), st.integers(0, 2**32 - 1))
def test_operators_do_what_numpy_does(family: Callable[[Draw], Made], seed: int) -> None:
    check(family(Draw(seed)), f"{family.__name__} {seed}")
