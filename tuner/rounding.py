"""How far apart two orders of the same float sums may be, from the number of terms.

Each addition rounds its result s, by u·|s| at most, to either side. Such errors mostly cancel: of n of them about the
square root is left, which Higham and Mary ("A new approach to probabilistic rounding error analysis", SIAM J. Sci.
Comput. 41(5), 2019) make a bound of. With partial sums that grow as those of random terms do, or of positive ones, two
orders of a sum of n terms differ by at most

    λ u √n max(|sum|, √n · size of a term)        but for a part of 2 exp(-λ²/2) of all sums

The second matters where terms of both signs cancel: the error goes with what was added up, not with what is left of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from compiler.dtype import parse_dtype
from compiler.ir.visit import walk
from compiler.tir import nodes as n
from compiler.tir.ops import as_int

_CONFIDENCE = 4.0  # λ
_MANTISSAS = {("float", 64): 53, ("float", 32): 24, ("float", 16): 11, ("bfloat", 16): 8}

Sizes = Mapping[n.Buffer, float]


@dataclass(frozen=True)
class Rounding:
    """How far two right results may differ.
    `relative` is a part of the larger of the expected value and the output's typical size. `absolute` is that part
    of the size itself, which few outputs don't show; 0 if it is unknown beforehand."""

    relative: float = 0.0
    absolute: float = 0.0


def rounding(func: n.PrimFunc) -> Rounding:
    """Return how much reordering the sums of `func` may change its outputs.
    Arguments are between -1 and 1."""
    variance = 0.0
    arguments = set(func.buffer_map.values())
    sizes = {buffer: 1.0 for buffer in arguments if parse_dtype(buffer.dtype).is_float}
    outputs: dict[n.Buffer, float] = {}
    for block in (node for node in walk(func.body) if isinstance(node, n.Block) and node.iter_vars):
        for store in (node for node in walk(block.body) if isinstance(node, n.BufferStore)):
            terms = _terms(block)
            if terms > 1 and (unit := _unit(store)):
                variance += terms * unit**2
            sizes[store.buffer] = math.sqrt(terms) * _size(store.value, store.buffer, sizes)
            if store.buffer in arguments:
                outputs[store.buffer] = sizes[store.buffer]
    relative = _CONFIDENCE * math.sqrt(variance)
    return Rounding(relative, relative * min(outputs.values(), default=0.0))


def _terms(block: n.Block) -> int:
    """How many values a block adds up for each result; a symbolic extent counts as 1."""
    reduced = [iv.dom for iv in block.iter_vars if iv.iter_type == n.IterType.COMM_REDUCE]
    return math.prod(as_int(dom.extent) or 1 for dom in reduced if dom is not None)


def _unit(store: n.BufferStore) -> float:
    """The unit roundoff of a step of a sum; 0 for steps without rounding, such as maxima and integers."""
    value = store.value
    while isinstance(value, n.Cast):
        value = value.value
    dtype = parse_dtype(store.buffer.dtype)
    bits = _MANTISSAS.get((dtype.code, dtype.bits))
    return 2.0**-bits if bits is not None and isinstance(value, n.Add | n.Mul) else 0.0


def _size(expr: n.PrimExpr, total: n.Buffer, sizes: Sizes) -> float:
    """The approximate size of `expr`.
    For elements of random arguments it is at most its root mean square, 0 if unknown. `total` is the sum so far,
    which its terms do not contribute to."""
    match expr:
        case n.BufferLoad(buffer=buffer):
            return 0.0 if buffer is total else sizes.get(buffer, 0.0)
        case n.IntImm(value=value) | n.FloatImm(value=value):
            return abs(float(value))
        case n.Cast(value=value):
            return _size(value, total, sizes)
        case n.Add(a=a, b=b) | n.Sub(a=a, b=b):
            return _size(a, total, sizes) + _size(b, total, sizes)
        case n.Mul(a=a, b=b):
            return _size(a, total, sizes) * _size(b, total, sizes)
        case n.Div(a=a, b=n.FloatImm() as b):
            return _size(a, total, sizes) / abs(b.value) if b.value else 0.0
    return 0.0
