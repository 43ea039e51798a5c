"""Reading an image between its pixels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.nodes import PrimExpr

Read = Callable[..., PrimExpr]


def inside(index: PrimExpr, size: Any) -> PrimExpr:
    """Whether `index` is a pixel's."""
    return ops.logical_and(ops.greater_equal(index, 0), ops.less(index, size))


def clamped(index: PrimExpr, size: Any) -> PrimExpr:
    """The nearest pixel."""
    return ops.maximum(ops.minimum(index, ops.sub(size, 1)), 0)


def whole(place: PrimExpr) -> PrimExpr:
    """A place rounded down, as an integer. Places far outside stop at ±2^30, where no image reaches."""
    far = float(1 << 30)
    kept = ops.maximum(ops.minimum(intrin.floor(place), ops.const(far, place.dtype)), ops.const(-far, place.dtype))
    return ops.cast("int32", kept)


def padded(read: Read, sizes: Sequence[Any]) -> Read:
    """`read` that gives 0 outside."""

    def value(*point: PrimExpr) -> PrimExpr:
        held = ops.logical_and(*(inside(i, size) for i, size in zip(point, sizes)))
        found = read(*point)
        return intrin.if_then_else(held, found, ops.const(0, found.dtype))

    return value


def linear(read: Read, places: Sequence[PrimExpr]) -> PrimExpr:
    """The value at `places`, interpolated linearly between the 2^n pixels around; as the places' dtype."""
    return _linear(read, places, ())


def _linear(read: Read, places: Sequence[PrimExpr], point: tuple[PrimExpr, ...]) -> PrimExpr:
    if not places:
        return read(*point)
    place, *rest = places
    below = whole(place)
    part = place - ops.cast(place.dtype, below)
    first = _linear(read, rest, (*point, below)).astype(place.dtype)
    second = _linear(read, rest, (*point, ops.add(below, 1))).astype(place.dtype)
    return first * (ops.const(1.0, place.dtype) - part) + second * part


def largest_corner(read: Read, places: Sequence[PrimExpr]) -> PrimExpr:
    """The largest of the 2^n pixels around `places`, each times the weight that `linear` gives it."""

    def largest(rest: Sequence[PrimExpr], point: tuple[PrimExpr, ...], weight: PrimExpr) -> PrimExpr:
        if not rest:
            return read(*point).astype(weight.dtype) * weight
        below = whole(rest[0])
        part = rest[0] - ops.cast(weight.dtype, below)
        return ops.maximum(
            largest(rest[1:], (*point, below), weight * (ops.const(1.0, weight.dtype) - part)),
            largest(rest[1:], (*point, ops.add(below, 1)), weight * part),
        )

    return largest(places, (), ops.const(1.0, places[0].dtype))


def bilinear(read: Read, sizes: Sequence[Any], y: PrimExpr, x: PrimExpr) -> PrimExpr:
    """The value at (y, x), 0 outside the image."""
    return linear(padded(read, sizes), (y, x))


def cubic_weights(part: PrimExpr, alpha: float) -> list[PrimExpr]:
    """The weights of the pixels at -1, 0, 1 and 2 for a place `part` behind pixel 0."""
    dtype = part.dtype

    def number(value: float) -> PrimExpr:
        return ops.const(value, dtype)

    def near(t: PrimExpr) -> PrimExpr:  # |t| <= 1
        return ((number(alpha + 2) * t - number(alpha + 3)) * t) * t + number(1.0)

    def far(t: PrimExpr) -> PrimExpr:  # 1 < |t| < 2
        return ((number(alpha) * t - number(5 * alpha)) * t + number(8 * alpha)) * t - number(4 * alpha)

    return [
        far(part + number(1.0)), near(part), near(number(1.0) - part), far(number(2.0) - part),
    ]  # fmt: skip


def cubic(read: Read, places: Sequence[PrimExpr], alpha: float) -> PrimExpr:
    """The value at `places`, interpolated by cubics through the 4^n pixels around."""
    return _cubic(read, places, alpha, ())


def _cubic(read: Read, places: Sequence[PrimExpr], alpha: float, point: tuple[PrimExpr, ...]) -> PrimExpr:
    if not places:
        return read(*point)
    place, *rest = places
    base = whole(place)
    weights = cubic_weights(place - ops.cast(place.dtype, base), alpha)
    total: PrimExpr | None = None
    for step, weight in zip((-1, 0, 1, 2), weights):
        term = _cubic(read, rest, alpha, (*point, ops.add(base, step))).astype(place.dtype) * weight
        total = term if total is None else total + term
    assert total is not None
    return total
