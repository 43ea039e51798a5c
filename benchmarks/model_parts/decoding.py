"""A small decoder of words as two ONNX graphs: one for a prompt, one for the next word, which reads a cache.

The caches hold keys and values of the words so far, keys turned: `(layers, batch, heads, size, words)`. A graph returns
those of its own words, and who calls it writes them into the caches, so that no runtime copies a cache.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from model_parts.graph import Graph, Value
from onnx import TensorProto, helper

BLOCK = 32  # weights of 4 bits that share a scale
_MICROSOFT = "com.microsoft"


@dataclass(frozen=True)
class Decoder:
    """Sizes of a decoder. `room`: words that its caches have room for. `bits`: of a weight. With `spread`, weights of 4
    bits are float32 numbers of the same values, for a reference."""

    layers: int = 8
    width: int = 768
    heads: int = 12
    few: int = 4
    vocabulary: int = 8192
    room: int = 256
    bits: int = 32
    spread: bool = False

    @property
    def size(self) -> int:
        return self.width // self.heads

    def prompt(self, batch: int, words: int) -> Any:
        """The graph that reads `words` words: scores of the next one, keys and values."""
        return _Making(self, batch, words).model()

    def step(self, batch: int) -> Any:
        """The graph that reads one word behind those that the caches hold."""
        return _Making(self, batch, 1, cached=True).model()


class _Making:
    """One graph of a decoder under construction. The same weights come in the same order, whatever the graph."""

    def __init__(self, of: Decoder, batch: int, words: int, cached: bool = False) -> None:
        self.of, self.batch, self.words, self.cached = of, batch, words, cached
        self.g = Graph("decoder")
        self._rng = np.random.default_rng(1)
        angles = np.outer(np.arange(of.room), 10000.0 ** (-np.arange(0, of.size, 2) / of.size))
        self.turns = [self._turns(np.tile(part(angles), 2)) for part in (np.cos, np.sin)]

    def model(self) -> Any:
        of, g = self.of, self.g
        table = self._rng.standard_normal((of.vocabulary, of.width)).astype("float32")
        data, keys, values = g("Gather", g.constant(table), "ids", axis=0), [], []
        for layer in range(of.layers):
            mixed, key, value = self._attention(self._normed(data), layer)
            keys, values = [*keys, g("Unsqueeze", key, g.ints(0))], [*values, g("Unsqueeze", value, g.ints(0))]
            data = g("Add", data, self._product(mixed, of.width, of.width))
            given, inner = self._normed(data), 8 * of.width // 3 // BLOCK * BLOCK
            gate = self._product(given, of.width, inner)
            gated = g("Mul", g("Mul", gate, g("Sigmoid", gate)), self._product(given, of.width, inner))
            data = g("Add", data, self._product(gated, inner, of.width))
        last = g("Gather", self._normed(data), g.constant(np.int64(self.words - 1)), axis=1)
        scores = self._product(last, of.width, of.vocabulary)
        return self._whole(scores, g("Concat", *keys, axis=0), g("Concat", *values, axis=0))

    # --- parts of a layer ---------------------------------------------------------------------------------------

    def _attention(self, data: Value, layer: int) -> tuple[Value, Value, Value]:
        of, g, few, size = self.of, self.g, self.of.few, self.of.size
        query = self._turned(self._head(data, of.heads))
        key = g("Transpose", self._turned(self._head(data, few)), perm=[0, 1, 3, 2])
        value = self._head(data, few)
        query = g("Mul", query, g.constant(np.float32(1 / math.sqrt(size))))
        query = g("Reshape", query, g.ints(self.batch, few, of.heads // few * self.words, size))
        scores = g("MatMul", query, key)
        if self.cached:
            past = g("MatMul", query, self._cache("keys", layer))
            weights = g("Softmax", g("Concat", g("Add", past, "mask"), scores, axis=3), axis=-1)
            before = g("Slice", weights, g.ints(0), g.ints(of.room), g.ints(3))
            now = g("Slice", weights, g.ints(of.room), g.ints(of.room + 1), g.ints(3))
            mixed = g("Add", g("MatMul", before, self._cache("values", layer)), g("MatMul", now, value))
        else:
            mask = np.triu(np.full((self.words, self.words), -1e9, "float32"), 1)
            masks = g.constant(np.tile(mask, (of.heads // few, 1))[None, None])
            mixed = g("MatMul", g("Softmax", g("Add", scores, masks), axis=-1), value)
        apart = g("Reshape", mixed, g.ints(self.batch, of.heads, self.words, size))
        joined = g("Transpose", apart, perm=[0, 2, 1, 3])
        return g("Reshape", joined, g.ints(self.batch, self.words, of.width)), key, value

    def _cache(self, name: str, layer: int) -> Value:
        return self.g("Gather", name, self.g.constant(np.int64(layer)), axis=0)

    def _head(self, data: Value, count: int) -> Value:
        made = self._product(data, self.of.width, count * self.of.size)
        cut = self.g("Reshape", made, self.g.ints(self.batch, self.words, count, self.of.size))
        return self.g("Transpose", cut, perm=[0, 2, 1, 3])

    def _turns(self, table: Any) -> Value:
        rows = table.astype("float32")
        return self.g("Gather", self.g.constant(rows), "place", axis=0) if self.cached else self.g.constant(
            rows[: self.words]
        )  # fmt: skip

    def _turned(self, data: Value) -> Value:
        """Rotary embedding: pairs of numbers turned by angles that grow with the place."""
        g, half = self.g, self.of.size // 2
        low, high = (g("Slice", data, g.ints(at), g.ints(at + half), g.ints(3)) for at in (0, half))
        across = g("Concat", g("Neg", high), low, axis=3)
        return g("Add", g("Mul", data, self.turns[0]), g("Mul", across, self.turns[1]))

    def _normed(self, data: Value) -> Value:
        g = self.g
        square = g("ReduceMean", g("Mul", data, data), g.ints(-1), keepdims=1)
        scale = g("Sqrt", g("Add", square, g.constant(np.float32(1e-6))))
        weight = (1 + 0.1 * self._rng.standard_normal((1, self.of.width))).astype("float32")
        return g("Mul", g("Div", data, scale), g.constant(weight))

    def _product(self, data: Value, inputs: int, outputs: int) -> Value:
        g = self.g
        weight = (self._rng.standard_normal((inputs, outputs)) / math.sqrt(inputs)).astype("float32")
        if self.of.bits == 32:
            return g("MatMul", data, g.constant(weight))
        numbers, scales = of_four_bits(weight)
        if self.of.spread:
            spread = (numbers.astype("float32") - 8) * scales[:, :, None]
            return g("MatMul", data, g.constant(np.ascontiguousarray(spread.reshape(outputs, inputs).T)))
        packed = numbers[:, :, ::2] | numbers[:, :, 1::2] << 4
        sizes = {"K": inputs, "N": outputs, "bits": 4, "block_size": BLOCK}
        return g("MatMulNBits", data, g.constant(packed), g.constant(scales.ravel()), domain=_MICROSOFT, **sizes)

    # --- the graph ----------------------------------------------------------------------------------------------

    def _whole(self, scores: Value, keys: Value, values: Value) -> Any:
        of, real, whole = self.of, TensorProto.FLOAT, TensorProto.INT64
        heads = (of.layers, self.batch, of.few)
        taken = {"ids": (whole, (self.batch, self.words))}
        if self.cached:
            taken |= {"place": (whole, (1,)), "mask": (real, (1, 1, 1, of.room))}
            taken |= {"keys": (real, (*heads, of.size, of.room)), "values": (real, (*heads, of.room, of.size))}
        given = {scores: (self.batch, of.vocabulary), keys: (*heads, of.size, self.words)}
        given |= {values: (*heads, self.words, of.size)}
        graph = helper.make_graph(
            self.g.nodes, "decoder", [helper.make_tensor_value_info(name, *item) for name, item in taken.items()],
            [helper.make_tensor_value_info(name, real, shape) for name, shape in given.items()], self.g.constants,
        )  # fmt: skip
        sets = [helper.make_opsetid("", 20), helper.make_opsetid(_MICROSOFT, 1)]
        made = helper.make_model(graph, opset_imports=sets, ir_version=9)
        onnx.checker.check_model(made)
        return made


def of_four_bits(weight: Any) -> tuple[Any, Any]:
    """Numbers from 0 to 15 in blocks along the sum, 8 of them zero, and each block's scale: rounded to the nearest."""
    blocks = weight.T.reshape(weight.shape[1], -1, BLOCK)
    scales = np.maximum(abs(blocks).max(axis=2) / 7, 1e-12).astype("float32")
    numbers = np.clip(np.rint(blocks / scales[:, :, None]) + 8, 0, 15)
    return numbers.astype("uint8"), scales
