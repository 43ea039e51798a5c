"""A product of matrices as tensor cores compute it, and the places of its operands.

    total[b, m, n] = sum over k of left[b, m, k] * right[b, n, k],    out[...] = f(total[b, m, n], ...)

Each of b, m, n and k stands for some axes, fused.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from compiler.arith.affine import as_affine
from compiler.dtype import parse_dtype
from compiler.tir import ops
from compiler.tir.nodes import Buffer, PrimExpr, Var
from compiler.tir.visit import free_vars

FLOATS, BYTES = ("float16", "bfloat16"), ("int8", "uint8")
CHUNK_BYTES = 16  # of one asynchronous copy, and of a row of a matrix that `ldmatrix` reads
_COPY_BYTES = (16, 8, 4)


@dataclass(frozen=True, slots=True)
class WarpAxis:
    var: Var
    extent: int


Group = tuple[WarpAxis, ...]


@dataclass(frozen=True, slots=True)
class WarpOperand:
    """Element number `index` of `buffer`, in terms of the axes; 0 where not all of `valid` hold.
    `lanes` elements lie side by side if one begins at a multiple of `lanes`: along k, or else along the operand's
    own axis. They are as many as one copy takes, 1 if each is fetched by itself."""

    buffer: Buffer
    index: PrimExpr
    valid: tuple[PrimExpr, ...] = ()
    along_k: bool = True
    lanes: int = 1

    @property
    def bytes(self) -> int:
        """The bytes of one element."""
        return parse_dtype(self.buffer.dtype).bytes


@dataclass(frozen=True, slots=True)
class Form:
    """The axes of a product by groups, each in the order of fusing, and its operands."""

    b: Group
    m: Group
    n: Group
    k: Group
    left: WarpOperand
    right: WarpOperand

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """How many b, m, n and k there are."""
        b, m, n_, k = (size_of(group) for group in (self.b, self.m, self.n, self.k))
        return b, m, n_, k


@dataclass(frozen=True, slots=True)
class WarpProduct(Form):
    """A product: `value` is stored to element number `index` of `out`.
    It is in terms of the axes and of `total`, the sum. `paired`: two neighbours along n, the first of them even, are
    stored side by side."""

    total: Var
    value: PrimExpr
    out: Buffer
    index: PrimExpr
    paired: bool


def size_of(group: Group) -> int:
    return math.prod(axis.extent for axis in group)


def flat(buffer: Buffer) -> Buffer:
    """The buffer's memory with one index."""
    return Buffer(buffer.name, buffer.data, (reduce(ops.mul, buffer.shape, ops.const(1)),), buffer.dtype)


def stored(form: Form, total: Var, value: PrimExpr, out: Buffer, index: PrimExpr) -> WarpProduct:
    """A product whose operands are copied as widely as their places in memory allow."""
    left, right = (
        _widest(operand, own, form.k, (*form.b, *own, *form.k))
        for operand, own in ((form.left, form.m), (form.right, form.n))
    )
    spatial = (*form.b, *form.m, *form.n)
    steps = _strides(index, spatial)
    paired = steps is not None and _side_by_side(steps, form.n[-1:], spatial, (), (2,)) == 2
    return WarpProduct(form.b, form.m, form.n, form.k, left, right, total, value, out, index, paired)


def grouped(axes: Group, reduced: Group, operands: tuple[WarpOperand, WarpOperand], index: PrimExpr) -> Form | None:
    """Return each of a sum's axes in its group.
    None if they are not those of a product. n has the axis along which the output's elements, at `index`, are
    neighbours."""
    first, second = operands
    steps = _strides(index, axes)
    in_first, in_second = ({*free_vars(x.index), *(v for c in x.valid for v in free_vars(c))} for x in (first, second))
    if steps is None or not all(axis.var in in_first & in_second for axis in reduced):
        return None
    order = sorted(axes, key=lambda axis: -steps[0][axis.var])
    if not order or any(axis.var not in in_first | in_second for axis in order):
        return None
    if order[-1].var in in_first:
        first, second, in_first, in_second = second, first, in_second, in_first
    if order[-1].var in in_first:  # in both: a product of many small matrices, none of which has rows
        return None
    own = [tuple(a for a in order if a.var in mine and a.var not in other)
           for mine, other in ((in_first, in_second), (in_second, in_first))]  # fmt: skip
    both = tuple(a for a in order if a.var in in_first & in_second)
    places = [_strides(x.index, (*axes, *reduced)) for x in (first, second)]
    if not own[0] or places[0] is None or places[1] is None:
        return None
    near = next((p[0] for p in places if p is not None and any(p[0][a.var] == 1 for a in reduced)), places[0][0])
    depth = tuple(sorted(reduced, key=lambda axis: -near[axis.var]))
    return Form(both, own[0], own[1], depth, first, second)


_Strides = tuple[Mapping[Var, int], int]


def _strides(index: PrimExpr, axes: Group) -> _Strides | None:
    """Return the distance of neighbours along each axis, and the first element's place.
    None where distances vary."""
    found = as_affine(index, [axis.var for axis in axes])
    start = None if found is None else ops.as_int(found[1])
    if found is None or start is None:
        return None
    return {axis.var: step for axis, step in zip(axes, found[0])}, start


def _widest(operand: WarpOperand, own: Group, depth: Group, axes: Group) -> WarpOperand:
    """`operand` with the widest copies that its place in memory allows."""
    steps = _strides(operand.index, axes)
    if steps is None:
        return operand
    most = operand.buffer.data_alignment if operand.buffer.data_alignment > 0 else CHUNK_BYTES
    widths = tuple(b // operand.bytes for b in _COPY_BYTES if b // operand.bytes and b <= most)
    along_k, across = (_side_by_side(steps, group, axes, operand.valid, widths) for group in (depth, own))
    if along_k >= across and along_k > 1:
        return replace(operand, along_k=True, lanes=along_k)
    if across > 1 and operand.bytes == 2:  # `ldmatrix` transposes elements of 16 bits only
        return replace(operand, along_k=False, lanes=across)
    runs = [_run(steps[0], group, operand.valid)[0] for group in (depth, own)]
    return replace(operand, along_k=runs[0] > runs[1])


def _run(steps: Mapping[Var, int], group: Group, valid: Sequence[PrimExpr]) -> tuple[int, set[Var]]:
    """Count neighbours of the fused axes that are also neighbours in memory, and valid together.
    Return also their axes."""
    fixed = {v for condition in valid for v in free_vars(condition)}
    count, inside = 1, set[Var]()
    for axis in reversed(group):
        if steps[axis.var] != count or axis.var in fixed:
            break
        count *= axis.extent
        inside.add(axis.var)
    return count, inside


def _side_by_side(
    strides: _Strides, group: Group, axes: Group, valid: Sequence[PrimExpr], widths: Sequence[int]
) -> int:
    """The first of `widths` that cuts the fused axes of `group` into aligned pieces of memory; else 1."""
    steps, start = strides
    count, inside = _run(steps, group, valid)
    others = [start, *(steps[axis.var] for axis in axes if axis.var not in inside)]
    return next((w for w in widths if count % w == 0 and all(step % w == 0 for step in others)), 1)
