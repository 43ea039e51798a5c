"""Gradients of tensors: reverse mode over te operations.

The adjoint of a tensor holds, for each of its elements, how much the head changes with it. Consider an operation that
reads `T[f(axes)]`. It adds to the adjoint of T at t the sum over all axes with f(axes) = t. An equation is solved for
an axis if an index has it with a factor of 1 or -1. The sum then runs over the remaining axes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compiler.arith.affine import as_affine
from compiler.arith.analyzer import Analyzer
from compiler.dtype import parse_dtype
from compiler.errors import IRError
from compiler.ir.structural import structural_equal
from compiler.te import operation as te
from compiler.te.tensor import ComputeOp, Operation, PlaceholderOp, Tensor, shape_text, topological
from compiler.te.where import at
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.nodes import PrimExpr
from compiler.tir.visit import substitute

_FLAT = {"floor", "ceil", "round", "trunc", "nearbyint", "isnan", "isinf", "isfinite"}
"""Functions that are constant between steps."""
_SLOPES: Mapping[str, Callable[[PrimExpr, PrimExpr], Any]] = {
    "exp": lambda x, y: y,
    "exp2": lambda x, y: y * math.log(2),
    "exp10": lambda x, y: y * math.log(10),
    "log": lambda x, y: 1.0 / x,
    "log2": lambda x, y: 1.0 / (x * math.log(2)),
    "log10": lambda x, y: 1.0 / (x * math.log(10)),
    "log1p": lambda x, y: 1.0 / (x + 1.0),
    "sqrt": lambda x, y: 0.5 / y,
    "rsqrt": lambda x, y: y / x * -0.5,
    "tanh": lambda x, y: 1.0 - y * y,
    "sigmoid": lambda x, y: y * (1.0 - y),
    "erf": lambda x, y: intrin.exp(-(x * x)) * (2 / math.sqrt(math.pi)),
    "sin": lambda x, y: intrin.cos(x),
    "cos": lambda x, y: -intrin.sin(x),
    "tan": lambda x, y: 1.0 + y * y,
    "sinh": lambda x, y: intrin.cosh(x),
    "cosh": lambda x, y: intrin.sinh(x),
    "asin": lambda x, y: intrin.rsqrt(1.0 - x * x),
    "acos": lambda x, y: -intrin.rsqrt(1.0 - x * x),
    "atan": lambda x, y: 1.0 / (1.0 + x * x),
    "fabs": lambda x, y: n.Select(x >= 0.0, ops.const(1.0, x.dtype), ops.const(-1.0, x.dtype)),
}
"""The derivative of y = f(x)."""


def gradient(output: Tensor, inputs: Tensor | Sequence[Tensor], head: Tensor | None = None) -> list[Tensor]:
    """Return the gradient of `output` for each of `inputs`, of shape (*prefix, *input.shape).

    `head`, of shape (*prefix, *output.shape), is the adjoint of the output. Without one it is the identity, so the
    gradients are the Jacobians. Raises IRError for operations that have no gradient here: externs, scans, reductions
    of tuples or by another reducer than sum, max and min.
    """
    wanted = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    start = _identity(output) if head is None else head
    rank = start.ndim - output.ndim
    if rank < 0 or not structural_equal(start.shape[rank:], output.shape):
        raise IRError(
            f"gradient: the head has shape {shape_text(start.shape)}, which does not end in "
            f"that of the output, {shape_text(output.shape)}"
        )
    prefix = start.shape[:rank]
    order = topological([output])
    reaching = _reaching(order, wanted)
    parts: dict[Tensor, list[Tensor]] = {output: [start]}
    adjoints: dict[Tensor, Tensor] = {}
    for op in reversed(order):
        for index, tensor in enumerate(op._outputs):
            if tensor not in parts:
                continue
            adjoints[tensor] = _added(parts[tensor], f"{tensor.name}_grad")
            if any(read in reaching for read in op.input_tensors):
                for read, part in _passed_on(op, index, adjoints[tensor], prefix, reaching):
                    parts.setdefault(read, []).append(part)
    return [adjoints[item] if item in adjoints else _zeros((*prefix, *item.shape), item) for item in wanted]


def _identity(output: Tensor) -> Tensor:
    rank = output.ndim

    def element(*indices: n.Var) -> PrimExpr:
        same = ops.logical_and(ops.const(True), *(n.EQ(a, b) for a, b in zip(indices[:rank], indices[rank:])))
        return n.Select(same, ops.const(1.0, output.dtype), ops.const(0.0, output.dtype))

    made: Tensor = te.compute((*output.shape, *output.shape), element, name="identity")
    return made


def _zeros(shape: Sequence[PrimExpr], like: Tensor) -> Tensor:
    made: Tensor = te.compute(tuple(shape), lambda *i: ops.const(0.0, like.dtype), name=f"{like.name}_grad")
    return made


def _added(parts: Sequence[Tensor], name: str) -> Tensor:
    if len(parts) == 1:
        return parts[0]

    def element(*indices: n.Var) -> PrimExpr:
        total: PrimExpr = parts[0](*indices)
        for part in parts[1:]:
            total = total + part(*indices)
        return total

    made: Tensor = te.compute(parts[0].shape, element, name=name)
    return made


def _reaching(order: Sequence[Operation], wanted: Sequence[Tensor]) -> set[Tensor]:
    """Return the tensors that depend on one of `wanted`, and `wanted` themselves."""
    found = set(wanted)
    for op in order:
        if any(read in found for read in op.input_tensors):
            found.update(op._outputs)
    return found


# ------------------------------------------------------------------------- one operation's part


@dataclass(frozen=True, slots=True)
class _Use:
    """A read of a tensor by an operation, and how much the head changes with the read value."""

    load: n.ProducerLoad
    slope: PrimExpr


def _passed_on(
    op: Operation, index: int, adjoint: Tensor, prefix: Sequence[PrimExpr], reaching: set[Tensor]
) -> Iterator[tuple[Tensor, Tensor]]:
    """Return the parts of the adjoints of what `op` reads that stem from its output `index`."""
    if not isinstance(op, ComputeOp):
        if isinstance(op, PlaceholderOp):
            return
        raise IRError(f"gradient: {op.name!r} is a {type(op).__name__}, which has no gradient here" + at(op.span))
    lead = [n.Var(f"p{place}", size.dtype) for place, size in enumerate(prefix)]
    seed: PrimExpr = adjoint(*lead, *(axis.var for axis in op.axis))
    body = op.body[index]
    if isinstance(body, n.Reduce):
        body, seed = _through_reduction(op, body, seed)
    uses: list[_Use] = []
    for load, slope in _slopes(body, seed):
        if load.producer in reaching:
            _collect(uses, load, slope)
    for use in uses:
        yield use.load.producer, _gathered(op, use, lead, prefix)


def _collect(uses: list[_Use], load: n.ProducerLoad, slope: PrimExpr) -> None:
    """Add a use; two of the same element are one."""
    for place, known in enumerate(uses):
        if known.load.producer is load.producer and structural_equal(known.load.indices, load.indices):
            uses[place] = _Use(load, known.slope + slope)
            return
    uses.append(_Use(load, slope))


def _through_reduction(op: ComputeOp, reduce: n.Reduce, seed: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
    """The reduced expression, and its derivative with the head."""
    kind = _kind(reduce)
    if kind is None:
        raise IRError(
            f"gradient: {op.name!r} is a reduction that has no gradient here" + at(op.span),
            hint="sums, maxima and minima of one value have one",
        )
    (source,) = reduce.source
    if kind is not n.Add:  # the elements that are the result pass all of it on
        result = op.output(0)(*(axis.var for axis in op.axis))
        seed = n.Select(n.EQ(source, result), seed, ops.const(0.0, seed.dtype))
    if not (isinstance(reduce.condition, n.IntImm) and reduce.condition.value):
        seed = n.Select(reduce.condition, seed, ops.const(0.0, seed.dtype))
    return source, seed


def _kind(reduce: n.Reduce) -> type[n.BinaryOp] | None:
    """Return Add for a sum, or Max or Min for a choice of one of two values."""
    combiner = reduce.combiner
    if len(combiner.result) != 1:
        return None
    (result,), (left,), (right,) = combiner.result, combiner.lhs, combiner.rhs
    for kind in (n.Add, n.Max, n.Min):
        if isinstance(result, kind) and {result.a, result.b} == {left, right}:
            return kind
    match result:
        case n.Select(true_value=a, false_value=b) if {a, b} == {left, right}:
            return n.Max
    return None


def _slopes(expr: PrimExpr, seed: PrimExpr) -> Iterator[tuple[n.ProducerLoad, PrimExpr]]:
    """Find each load on which `expr` depends smoothly, with `seed` times its derivative by that load."""
    match expr:
        case n.ProducerLoad():
            yield expr, seed
        case n.Add(a=a, b=b):
            yield from _slopes(a, seed)
            yield from _slopes(b, seed)
        case n.Sub(a=a, b=b):
            yield from _slopes(a, seed)
            yield from _slopes(b, -seed)
        case n.Mul(a=a, b=b):
            yield from _slopes(a, seed * b)
            yield from _slopes(b, seed * a)
        case n.Div(a=a, b=b) if parse_dtype(expr.dtype).is_float:
            yield from _slopes(a, seed / b)
            yield from _slopes(b, -(seed * a) / (b * b))
        case n.Max(a=a, b=b) | n.Min(a=a, b=b):
            first = n.GE(a, b) if isinstance(expr, n.Max) else n.LE(a, b)
            yield from _chosen(first, a, b, seed)
        case n.Select(condition=condition, true_value=a, false_value=b):
            yield from _chosen(condition, a, b, seed)
        case n.Cast(value=value):
            if parse_dtype(value.dtype).is_float and parse_dtype(expr.dtype).is_float:
                yield from _slopes(value, ops.cast(value.dtype, seed))
        case n.Call():
            yield from _slopes_of_call(expr, seed)
        case n.Let(var=var, value=value, body=body):
            yield from _slopes(substitute(body, {var: value}), seed)


def _chosen(condition: PrimExpr, a: PrimExpr, b: PrimExpr, seed: PrimExpr) -> Iterator[tuple[n.ProducerLoad, PrimExpr]]:
    zero = ops.const(0.0, seed.dtype)
    yield from _slopes(a, intrin.if_then_else(condition, seed, zero))
    yield from _slopes(b, intrin.if_then_else(condition, zero, seed))


def _slopes_of_call(call: n.Call, seed: PrimExpr) -> Iterator[tuple[n.ProducerLoad, PrimExpr]]:
    name = str(getattr(call.op, "name", call.op)).removeprefix("tir.")
    if name in _FLAT:
        return
    match name, call.args:
        case "if_then_else", (condition, a, b):
            yield from _chosen(condition, a, b, seed)
        case "pow", (x, y):
            yield from _slopes(x, seed * y * intrin.power(x, y - 1.0))
            yield from _slopes(y, seed * call * intrin.log(x))
        case "fma", (a, b, c):
            yield from _slopes(n.Add(n.Mul(a, b), c), seed)
        case _, (x,) if name in _SLOPES:
            yield from _slopes(x, seed * _SLOPES[name](x, call))
        case _:
            if any(True for arg in call.args for _ in _slopes(arg, seed)):
                raise IRError(f"gradient: {name} has no derivative here")


# ----------------------------------------------------------------------- solving for the axes


def _gathered(op: ComputeOp, use: _Use, lead: Sequence[n.Var], prefix: Sequence[PrimExpr]) -> Tensor:
    """Return the part of the adjoint at `use`, summed over the axes that its indices leave open."""
    read = use.load.producer
    axes = [*op.axis, *op.reduce_axis]

    def element(*indices: n.Var) -> PrimExpr:
        place = indices[len(prefix) :]
        values, conditions, left = _solved(axes, use.load.indices, place)
        fresh = [te.reduce_axis(axis.dom, f"{axis.var.name}_r") for axis in left]
        renamed: dict[n.Var, PrimExpr] = {axis.var: new.var for axis, new in zip(left, fresh)}
        renamed |= dict(zip(lead, indices))
        values = {var: substitute(value, renamed) for var, value in values.items()} | renamed
        analyzer = Analyzer()
        for var, size in zip(indices, (*prefix, *read.shape)):
            analyzer.bind(var, n.Range.from_extent(size, var.dtype))
        for axis in fresh:
            analyzer.bind(axis.var, axis.dom)  # type: ignore[arg-type]
        needed = [analyzer.simplify(substitute(condition, values)) for condition in conditions]
        needed = [condition for condition in needed if not analyzer.can_prove(condition)]
        value = substitute(use.slope, values)
        if needed:
            value = intrin.if_then_else(ops.logical_and(*needed), value, ops.const(0.0, value.dtype))
        return te.sum(value, axis=fresh) if fresh else value

    made: Tensor = te.compute((*prefix, *read.shape), element, name=f"{read.name}_grad")
    return made


def _solved(
    axes: Sequence[n.IterVar], indices: Sequence[PrimExpr], place: Sequence[n.Var]
) -> tuple[dict[n.Var, PrimExpr], list[PrimExpr], list[n.IterVar]]:
    """Solve `indices` = `place` for axes.
    Return some as expressions of the others, the conditions, and the others."""
    values: dict[n.Var, PrimExpr] = {}
    conditions: list[PrimExpr] = []
    left = list(axes)
    unsolved: list[tuple[PrimExpr, n.Var]] = []
    for index, target in zip(indices, place):
        here = substitute(index, values)
        found = as_affine(here, [axis.var for axis in left])
        at_one = [] if found is None else [at_ for at_, factor in enumerate(found[0]) if abs(factor) == 1]
        if found is None or not at_one:
            unsolved.append((index, target))
            continue
        chosen = left.pop(at_one[0])
        factor = found[0][at_one[0]]
        rest = substitute(here, {chosen.var: ops.const(0, chosen.var.dtype)})
        difference = ops.sub(ops.cast(chosen.var.dtype, target), ops.cast(chosen.var.dtype, rest))
        value = difference if factor == 1 else ops.neg(difference)
        values = {var: substitute(known, {chosen.var: value}) for var, known in values.items()} | {chosen.var: value}
        assert chosen.dom is not None
        conditions += [
            ops.greater_equal(chosen.var, chosen.dom.min),
            ops.less(chosen.var, ops.add(chosen.dom.min, chosen.dom.extent)),
        ]
    conditions += [n.EQ(*ops.match_types(index, target)) for index, target in unsolved]
    return values, conditions, left
