"""Random graphs: operators of every fusion kind over a few shapes, one of them symbolic, and arguments for them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from compiler.ir.module import IRModule
from compiler.relax import op
from compiler.relax.block_builder import BlockBuilder
from compiler.relax.nodes import If, SeqExpr, TensorStructInfo, Tuple, TupleGetItem, Var, const, info_of
from compiler.tir import nodes as n

ROWS = 3
"""The value of the symbolic dimension in the arguments."""


@dataclass(frozen=True)
class Graph:
    """A module with the function "main", and arguments for it."""

    module: IRModule
    args: list[Any]


def random_graph(seed: int, count: int = 8, symbolic: bool = True) -> Graph:
    """A graph of about `count` operators over matrices of 4 columns."""
    return _Maker(random.Random(seed), symbolic).graph(count)


class _Maker:
    def __init__(self, rng: random.Random, symbolic: bool) -> None:
        self.rng = rng
        self.rows: Any = n.Var("n", "int64") if symbolic else ROWS
        self.builder = BlockBuilder()
        self.values: list[Var] = []

    def graph(self, count: int) -> Graph:
        rng, bb = self.rng, self.builder
        x, w = Var("x", self.info(self.rows, 4)), Var("w", self.info(4, 4))
        b, c = Var("b", self.info(4)), Var("c", TensorStructInfo((), "bool"))
        self.values = [x]
        with bb.function("main", [x, w, b, c]):
            with bb.dataflow():
                for _ in range(count // 2):
                    self.step(w, b)
                self.values = [bb.emit_output(rng.choice(self.values)) for _ in range(2)]
            if rng.random() < 0.5:
                inner = rng.choice(self.values)
                chosen = If(c, SeqExpr((), op.add(inner, b)), SeqExpr((), op.exp(op.tanh(inner))))
                self.values.append(bb.emit(chosen))
            with bb.dataflow():
                for _ in range(count - count // 2):
                    self.step(w, b)
                outs = [bb.emit_output(rng.choice(self.values)) for _ in range(rng.choice((1, 2, 3)))]
            bb.emit_func_output(outs[0] if len(outs) == 1 else Tuple(tuple(outs)))
        numbers = np.random.default_rng(rng.randrange(1 << 30))
        args: list[Any] = [numbers.standard_normal(shape).astype("float32") for shape in ((ROWS, 4), (4, 4), (4,))]
        return Graph(bb.get(), [*args, np.array(rng.random() < 0.5)])

    def info(self, *shape: Any) -> TensorStructInfo:
        return TensorStructInfo(shape, "float32")  # type: ignore[arg-type]

    def step(self, w: Var, b: Var) -> None:
        """Add one value, of shape (rows, 4) as all are."""
        rng, bb = self.rng, self.builder
        a, other = rng.choice(self.values), rng.choice(self.values)
        makers: list[Callable[[], Any]] = [
            lambda: op.nn.relu(a),
            lambda: op.tanh(a),
            lambda: op.negative(a),
            lambda: op.add(a, other),
            lambda: op.multiply(op.tanh(a), other),
            lambda: op.maximum(a, b),
            lambda: op.subtract(a, const(0.5)),
            lambda: op.matmul(op.tanh(a), w),
            lambda: op.matmul(op.tanh(a), const(_weights(rng.randrange(3)))),
            lambda: op.add(a, op.reshape(const(_weights(1)[0]), (1, 4))),
            lambda: op.nn.softmax(a),
            lambda: op.subtract(a, op.mean(a, axis=1, keepdims=True)),
            lambda: op.reshape(op.reshape(a, (-1,)), (-1, 4)),
            lambda: op.permute_dims(op.permute_dims(op.tanh(a), [1, 0]), [1, 0]),
            lambda: op.strided_slice(op.concat([a, other], axis=1), axes=[1], begin=[2], end=[6]),
            lambda: op.concat([TupleGetItem(bb.emit(op.split(a, 2, axis=1)), index) for index in (1, 0)], axis=1),
            lambda: op.add(a, op.multiply(op.exp(const(_weights(2)[1])), const(2.0))),
        ]
        value = bb.emit(rng.choice(makers)())
        assert isinstance(info_of(value), TensorStructInfo)
        self.values.append(value)


def _weights(seed: int) -> Any:
    return np.random.default_rng(seed).standard_normal((4, 4)).astype("float32")
