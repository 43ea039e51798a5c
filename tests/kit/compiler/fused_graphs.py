"""Graphs of one kernel that sums something, with random steps before and after it: fusion must make one kernel."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from compiler.ir.module import IRModule
from compiler.relax import op
from compiler.relax.block_builder import BlockBuilder
from compiler.relax.nodes import TensorStructInfo, Var, const, info_of
from tests.kit.compiler.random_graphs import Graph

Shape = tuple[int, ...]
Anchor = Callable[["Maker", Var], Any]


def _conv(op_of: Callable[..., Any], weight: Shape, **attrs: Any) -> Anchor:
    return lambda maker, x: op_of(x, maker.param(weight), **attrs)


ANCHORS: dict[str, tuple[Shape, Anchor]] = {
    "conv1d": ((1, 4, 18), _conv(op.nn.conv1d, (8, 4, 3), padding=1)),
    "conv2d": ((1, 8, 10, 16), _conv(op.nn.conv2d, (16, 8, 3, 3), padding=1)),
    "conv2d_1x1": ((1, 12, 7, 9), _conv(op.nn.conv2d, (16, 12, 1, 1))),
    "conv2d_strided": ((1, 6, 11, 13), _conv(op.nn.conv2d, (8, 6, 3, 3), strides=2, padding=1)),
    "conv2d_depthwise": ((1, 8, 9, 12), _conv(op.nn.conv2d, (8, 1, 3, 3), padding=1, groups=8)),
    "conv2d_grouped": ((1, 8, 6, 10), _conv(op.nn.conv2d, (8, 4, 3, 3), groups=2)),
    "conv2d_nhwc": ((1, 6, 8, 8), _conv(op.nn.conv2d, (3, 3, 8, 16), data_layout="NHWC", kernel_layout="HWIO")),
    "conv2d_winograd": ((1, 16, 14, 16), _conv(op.nn.conv2d, (16, 16, 3, 3), padding=1)),
    "conv3d": ((1, 3, 5, 6, 7), _conv(op.nn.conv3d, (4, 3, 3, 3, 3), padding=1)),
    "conv1d_transpose": ((1, 4, 9), _conv(op.nn.conv1d_transpose, (4, 6, 3), strides=2)),
    "conv2d_transpose": ((1, 4, 5, 6), _conv(op.nn.conv2d_transpose, (4, 6, 3, 3), strides=2, padding=1)),
    "conv3d_transpose": ((1, 2, 3, 4, 4), _conv(op.nn.conv3d_transpose, (2, 3, 2, 2, 2))),
    "matmul": ((20, 24), lambda maker, x: op.matmul(x, maker.param((24, 36)))),
    "matmul_row": ((1, 48), lambda maker, x: op.matmul(x, maker.param((48, 64)))),
    "matmul_batched": ((3, 10, 12), lambda maker, x: op.matmul(x, maker.param((3, 12, 17)))),
    "matmul_shared": ((2, 9, 16), lambda maker, x: op.matmul(x, maker.param((16, 32)))),
    "einsum": ((6, 8), lambda maker, x: op.einsum([x, maker.param((8, 5))], "ij,jk->ik")),
    "attention": ((1, 12, 2, 8), lambda maker, x: op.nn.attention(x, maker.like(x), maker.like(x))),
    "attention_bias": (
        (1, 6, 2, 8), lambda maker, x: op.nn.attention(x, maker.like(x), maker.like(x), maker.param((1, 2, 6, 6)))
    ),
    "softmax": ((6, 40), lambda maker, x: op.nn.softmax(x)),
    "softmax_middle": ((3, 10, 8), lambda maker, x: op.nn.softmax(x, axis=1)),
    "log_softmax": ((6, 33), lambda maker, x: op.nn.log_softmax(x)),
    "layer_norm": ((2, 6, 48), lambda maker, x: op.nn.layer_norm(x, maker.param((48,)), maker.param((48,)), axes=-1)),
    "rms_norm": ((2, 6, 48), lambda maker, x: op.nn.rms_norm(x, maker.param((48,)), axes=-1)),
    "group_norm": (
        (2, 8, 5, 6),
        lambda maker, x: op.nn.group_norm(x, maker.param((8,)), maker.param((8,)), 2, 1, axes=[2, 3]),
    ),
    "instance_norm": (
        (2, 4, 5, 6), lambda maker, x: op.nn.instance_norm(x, maker.param((4,)), maker.param((4,)), 1, [2, 3]),
    ),
    "max_pool1d": ((1, 4, 20), lambda maker, x: op.nn.max_pool1d(x, 2, 2)),
    "max_pool2d": ((1, 8, 13, 14), lambda maker, x: op.nn.max_pool2d(x, (3, 3), 2, 1)),
    "max_pool3d": ((1, 2, 6, 6, 8), lambda maker, x: op.nn.max_pool3d(x, (2, 2, 2), 2)),
    "avg_pool1d": ((1, 4, 20), lambda maker, x: op.nn.avg_pool1d(x, 3, 1, 1)),
    "avg_pool2d": ((1, 8, 12, 16), lambda maker, x: op.nn.avg_pool2d(x, (2, 2), 2)),
    "avg_pool3d": ((1, 2, 6, 6, 8), lambda maker, x: op.nn.avg_pool3d(x, (2, 2, 2), 2)),
    "adaptive_avg_pool1d": ((1, 4, 20), lambda maker, x: op.nn.adaptive_avg_pool1d(x, 4)),
    "adaptive_avg_pool2d": ((1, 8, 7, 9), lambda maker, x: op.nn.adaptive_avg_pool2d(x, (1, 1))),
    "adaptive_avg_pool3d": ((1, 2, 4, 5, 6), lambda maker, x: op.nn.adaptive_avg_pool3d(x, (2, 2, 2))),
    "sum": ((5, 6, 40), lambda maker, x: op.sum(x, axis=-1)),
    "mean": ((12, 50), lambda maker, x: op.mean(x, axis=1, keepdims=True)),
    "max_columns": ((30, 24), lambda maker, x: op.max(x, axis=0)),
    "variance": ((8, 40), lambda maker, x: op.variance(x, axis=[1], keepdims=True)),
}  # fmt: skip
"""Shapes of the first argument, and what is computed of it: every kind of operator that steps may be fused to."""


class Maker:
    """Builds one such graph."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.builder = BlockBuilder()
        self.params: list[Var] = []

    def graph(self, shape: Shape, anchor: Anchor, before: int, after: int) -> Graph:
        bb = self.builder
        with bb.function("main", None):
            with bb.dataflow():
                value = self.steps(self._source(shape), before, pads=False)
                value = self.steps(bb.emit(anchor(self, value)), after, pads=True)
                out = bb.emit_output(value)
            bb.emit_func_output(out, self.params)
        numbers = np.random.default_rng(self.rng.randrange(1 << 30))
        args = [numbers.uniform(-1, 1, _shape(param)).astype("float32") for param in self.params]
        module: IRModule = bb.get()
        return Graph(module, args)

    def _source(self, shape: Shape) -> Var:
        """The first value: a parameter, or one that is padded or transposed to `shape`."""
        bb, rng, last = self.builder, self.rng, len(shape) - 1
        way = rng.randrange(4)
        if way == 0 and shape[-1] > 3:
            inner = self.steps(self.param((*shape[:-1], shape[-1] - 3)), rng.randrange(2), pads=False)
            return bb.emit(op.nn.pad(inner, [0] * (2 * last) + [1, 2]))
        if way == 1 and last and min(shape[-2:]) > 1:  # else it would be a view, which is no part of a kernel
            inner = self.steps(self.param((*shape[:-2], shape[-1], shape[-2])), rng.randrange(2), pads=False)
            return bb.emit(op.permute_dims(inner, [*range(last - 1), last, last - 1]))
        return self.param(shape)

    def param(self, shape: Shape) -> Var:
        made = Var(f"p{len(self.params)}", TensorStructInfo(shape, "float32"))  # type: ignore[arg-type]
        self.params.append(made)
        return made

    def like(self, value: Var) -> Var:
        return self.param(_shape(value))

    def steps(self, value: Var, count: int, pads: bool) -> Var:
        """`count` steps; every one leads to the last."""
        bb, rng = self.builder, self.rng
        while count > 0:
            if count > 2 and rng.random() < 0.3:  # two ways that meet again
                left = self.steps(value, 1, pads=False)
                value = bb.emit(rng.choice((op.add, op.multiply, op.maximum))(left, value))
                count -= 2
                continue
            value = bb.emit(self._step(value, pads))
            count -= 1
        return value

    def _step(self, value: Var, pads: bool) -> Any:
        rng, shape = self.rng, _shape(value)
        kept = tuple(size if rng.random() < 0.5 else 1 for size in shape)
        makers: list[Callable[[], Any]] = [
            lambda: op.nn.relu(value),
            lambda: op.tanh(value),
            lambda: op.nn.gelu(value),
            lambda: op.sigmoid(value),
            lambda: op.multiply(value, const(0.5)),
            lambda: op.clip(value, -0.75, 0.75),
            lambda: op.add(value, self.param(kept)),
            lambda: op.multiply(value, self.param(shape[-1:])),
            lambda: op.add(value, self.param(shape)),
            lambda: op.nn.silu(value),
        ]
        if pads:
            last = len(shape) - 1
            makers.append(lambda: op.nn.pad(value, [0] * (2 * last) + [1, 2]))
            if last and min(shape[last - 1 :]) > 1:
                makers.append(lambda: op.permute_dims(value, [*range(last - 1), last, last - 1]))
            if shape[-1] > 3:
                makers.append(lambda: op.strided_slice(value, axes=[last], begin=[1], end=[shape[-1] - 1]))
        return rng.choice(makers)()


def _shape(value: Var) -> Shape:
    info = info_of(value)
    assert isinstance(info, TensorStructInfo)
    return tuple(int(size) for size in info.dims or ())  # type: ignore[call-overload]


def fused_graph(seed: int, name: str) -> Graph:
    """A graph around the anchor `name`, with up to eight steps before and after it."""
    rng = random.Random(f"{seed} {name}")
    shape, anchor = ANCHORS[name]
    before, after = rng.randrange(9), rng.randrange(9)
    return Maker(rng).graph(shape, anchor, before, after)
