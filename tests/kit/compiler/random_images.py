"""Random graphs over images: convolutions, pooling, norms, reductions, tuples, operators that no layout passes."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from compiler.relax import op
from compiler.relax.block_builder import BlockBuilder
from compiler.relax.nodes import TensorStructInfo, Tuple, TupleGetItem, Var, const
from tests.kit.compiler.random_graphs import Graph

CHANNELS, SIZE = 4, 4


def random_image_graph(seed: int, count: int = 7, dtype: str = "float32", scalar: bool = False) -> Graph:
    """A graph of about `count` operators over images of 4 channels and 4 x 4 pixels, in two dataflow blocks.

    `scalar`: it returns one number, which depends on the last image.
    """
    return _Maker(random.Random(seed), dtype).graph(count, scalar)


class _Maker:
    def __init__(self, rng: random.Random, dtype: str) -> None:
        self.rng = rng
        self.dtype = dtype
        self.builder = BlockBuilder()
        self.numbers = np.random.default_rng(rng.randrange(1 << 30))

    def graph(self, count: int, scalar: bool) -> Graph:
        rng, bb = self.rng, self.builder
        shapes = ((2, CHANNELS, SIZE, SIZE), (CHANNELS, CHANNELS, 3, 3), (CHANNELS, 1, 1))
        x, w, b = (Var(name, TensorStructInfo(s, self.dtype)) for name, s in zip("xwb", shapes))  # type: ignore[arg-type]
        values: list[Any] = [x]
        with bb.function("main", [x, w, b]):
            for _ in range(2):
                with bb.dataflow():
                    for _ in range(count // 2):
                        values.append(bb.emit(self.step(values, w, b)))
                    values = [bb.emit_output(rng.choice(values[-2:])), bb.emit_output(values[-1])]
            if scalar:
                weighted = bb.emit(op.multiply(values[-1], self.array(2, CHANNELS, SIZE, SIZE)))
                bb.emit_func_output(bb.emit(op.sum(weighted)))
            else:
                bb.emit_func_output(Tuple(tuple(values)))
        return Graph(bb.get(), [self.numbers.standard_normal(s).astype(self.dtype) for s in shapes])

    def array(self, *shape: int) -> Any:
        return const(self.numbers.standard_normal(shape).astype(self.dtype))

    def step(self, values: list[Any], w: Any, b: Any) -> Any:
        rng, bb, a, other = self.rng, self.builder, self.rng.choice(values[-3:]), self.rng.choice(values)

        def norm() -> Any:
            scale, shift, mean = (self.array(CHANNELS) for _ in range(3))
            made = op.nn.batch_norm(a, scale, shift, mean, op.abs(scale), axis=1, training=False)
            return TupleGetItem(bb.emit(made), 0)

        def halves(axis: int) -> Any:
            parts = bb.emit(op.split(a, 2, axis=axis))
            fields = [bb.emit(TupleGetItem(parts, n)) for n in (1, 0)]
            return op.concat(rng.choice((fields, Tuple(tuple(fields)))), axis=axis)

        return rng.choice([
            lambda: op.nn.conv2d(a, w, padding=1), lambda: op.nn.conv2d(a, self.array(4, 4, 1, 1)),
            lambda: op.nn.conv2d(a, w, padding=1), lambda: op.nn.conv2d(a, self.array(4, 1, 3, 3), padding=1, groups=4),
            lambda: op.nn.relu(a), lambda: op.add(a, other), lambda: op.multiply(a, b), lambda: op.tanh(a), norm,
            lambda: op.add(a, self.array(4)), lambda: op.nn.max_pool2d(a, 3, padding=1),
            lambda: op.nn.avg_pool2d(a, 3, padding=1), lambda: halves(1), lambda: halves(3),
            lambda: op.subtract(a, op.mean(other, axis=[2, 3], keepdims=True)), lambda: op.nn.softmax(a, axis=1),
            lambda: op.multiply(a, op.expand_dims(op.expand_dims(op.max(other, axis=[2, 3]), [2]), [3])),
            lambda: op.permute_dims(op.permute_dims(a, [0, 2, 3, 1]), [0, 3, 1, 2]),
            lambda: op.reshape(op.reshape(a, (2, -1)), (2, CHANNELS, SIZE, SIZE)),
            lambda: op.strided_slice(op.nn.pad(a, (0, 0, 0, 0, 1, 1, 0, 0)), axes=[2], begin=[0], end=[SIZE]),
            lambda: op.where(op.greater(a, other), a, const(0.0, self.dtype)), lambda: op.flip(a, axis=3),
        ])()  # fmt: skip
