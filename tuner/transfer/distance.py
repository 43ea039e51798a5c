"""How alike two functions are to a tuner.

Whether one schedule could serve both, and how far their shapes are apart.

Functions are of one *family* when they have the same blocks in the same order. Each block has the same kinds of
axes, the same operators on the same dtypes, and buffers accessed along the same axes. Extents, strides, padding
widths and other constants may differ, and so may names. Within a family the distance is taken on the logarithms of
extents: an axis twice as long is 1 away.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from compiler.arith.affine import as_affine
from compiler.ir.base import Node
from compiler.ir.visit import children, walk
from compiler.tir import nodes as n
from compiler.tir.ops import as_int
from compiler.tir.visit import free_vars

FloatArray = npt.NDArray[np.float64]

_STRIDE_WEIGHT = 0.5  # a stride of 2 instead of 1 changes a kernel less than an axis twice as long


@dataclass(frozen=True)
class BlockShape:
    """The extents of a block's axes, and the strides of its buffers, in order of appearance."""

    extents: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def points(self) -> int:
        return math.prod(self.extents)


@dataclass(frozen=True)
class Description:
    """A function as `distance` sees it.
    `family` is a digest, equal within a family. It is small enough to keep for every workload of a store."""

    family: str
    blocks: tuple[BlockShape, ...]


def distance(a: n.PrimFunc, b: n.PrimFunc) -> float | None:
    """Return how far apart two functions of one family are (0 or more), or None.
    None when they are not of one, or when either has no block with constant extents."""
    left, right = describe(a), describe(b)
    return None if left is None or right is None else between(left, right)


def between(a: Description, b: Description) -> float | None:
    """`distance` of described functions."""
    return None if a.family != b.family else float(Shapes.of([b]).distances(a)[0])


@dataclass(frozen=True)
class Shapes:
    """Functions of one family, ready to be compared with another all at once.
    There is a row each, whose columns are the extents and strides of all blocks."""

    family: str
    logs: FloatArray  # of the columns' values, to the base 2
    shares: FloatArray  # of all the work of a function, that of the column's block
    weights: FloatArray  # of the columns' squared differences

    @staticmethod
    def of(described: Sequence[Description]) -> Shapes:
        """Return the summary of at least one."""
        rows, shares = [], []
        for description in described:
            blocks = description.blocks
            total = sum(block.points for block in blocks)
            rows.append([value for block in blocks for value in (*block.extents, *block.strides)])
            shares.append([block.points / total for block in blocks for _ in (*block.extents, *block.strides)])
        first = described[0]
        weights = [
            weight
            for block in first.blocks
            for weight, columns in ((1.0, block.extents), (_STRIDE_WEIGHT**2, block.strides))
            for _ in columns
        ]
        return Shapes(first.family, np.log2(np.array(rows, float)), np.array(shares), np.array(weights))

    def distances(self, here: Description) -> FloatArray:
        """`between` each of them and `here`, which is of their family."""
        one = Shapes.of([here])
        squares = self.weights * (self.logs - one.logs) ** 2 * (self.shares + one.shares) / 2
        distances: FloatArray = np.sqrt(squares.sum(axis=1))
        return distances


def describe(func: n.PrimFunc) -> Description | None:
    """Return what `between` compares.
    None for a function without blocks, or with an extent that is no constant."""
    buffers: dict[n.Buffer, int] = {}
    for param in func.params:
        if param in func.buffer_map:
            _number(buffers, func.buffer_map[param])
    writers = [_Writer(b, buffers) for b in walk(func.body) if isinstance(b, n.Block) and b.iter_vars]
    shapes = [writer.shape() for writer in writers]
    if not shapes or any(shape is None for shape in shapes):
        return None
    arguments = [func.buffer_map[p].dtype if p in func.buffer_map else p.dtype for p in func.params]
    text = json.dumps([arguments, [writer.tokens for writer in writers]])
    digest = hashlib.sha256(text.encode()).hexdigest()[:32]
    return Description(digest, tuple(shape for shape in shapes if shape is not None))


def _number(buffers: dict[n.Buffer, int], buffer: n.Buffer) -> int:
    return buffers.setdefault(buffer, len(buffers))


@dataclass
class _Writer:
    """Writes down one block: its structure as tokens, its constants apart from them."""

    block: n.Block
    buffers: dict[n.Buffer, int]
    tokens: list[str] = field(default_factory=list)
    strides: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._axes = {iv.var: position for position, iv in enumerate(self.block.iter_vars)}
        kinds = ("R" if iv.iter_type == n.IterType.COMM_REDUCE else "S" for iv in self.block.iter_vars)
        self.tokens.append("".join(kinds))
        self._write(self.block.body)

    def shape(self) -> BlockShape | None:
        extents = [None if iv.dom is None else as_int(iv.dom.extent) for iv in self.block.iter_vars]
        known = tuple(e for e in extents if e is not None and e > 0)
        return BlockShape(known, tuple(self.strides)) if len(known) == len(extents) else None

    def _write(self, node: Node) -> None:
        match node:
            case n.BufferLoad(buffer, indices) | n.BufferStore(buffer, _, indices):
                self.tokens.append(f"{type(node).__name__}:{_number(self.buffers, buffer)}:{buffer.dtype}")
                for index in indices:
                    self._index(index)
                if isinstance(node, n.BufferStore):
                    self._write(node.value)
            case n.Var():
                self.tokens.append(f"axis{self._axes[node]}" if node in self._axes else "var")
            case n.IntImm() | n.FloatImm():
                self.tokens.append(f"#{node.dtype}")
            case _:
                operator = getattr(getattr(node, "op", None), "name", "")
                self.tokens.append(f"({type(node).__name__}:{operator}:{getattr(node, 'dtype', '')}")
                for child in children(node):
                    self._write(child)
                self.tokens.append(")")

    def _index(self, index: n.PrimExpr) -> None:
        """Reduce an index to the axes it runs along.
        Its step along an axis is a stride, not structure."""
        used = sorted(((self._axes[v], v) for v in free_vars(index) if v in self._axes), key=lambda entry: entry[0])
        self.tokens.append(",".join(str(position) for position, _ in used))
        affine = as_affine(index, [var for _, var in used])
        coefficients = (1,) * len(used) if affine is None else affine[0]
        self.strides += [max(1, abs(c)) for c in coefficients]
