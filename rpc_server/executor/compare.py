"""Arguments made from a seed, and whether two outputs agree."""

from __future__ import annotations

import mmap
import os
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.artifact import ArgSpec
from compiler.dtype import parse_dtype
from compiler.errors import ArgumentError
from compiler.runtime.core.fill import random_values

AnyArray = npt.NDArray[Any]


def fill(spec: ArgSpec, seed: int, index: int) -> AnyArray | int | float:
    """Argument `index`'s value: the same on every machine for one seed.

    Arrays: see `random_values`. Scalars: a float in [0, 1), or an integer from 1 to 8. Raises ArgumentError for an
    array whose shape is open.
    """
    rng = np.random.Generator(np.random.PCG64([seed & (2**63 - 1), index]))
    if spec.shape is None:
        return float(rng.random()) if parse_dtype(spec.dtype).is_float else int(rng.integers(1, 9))
    shape = spec.fixed_shape
    if shape is None:
        extents = ", ".join(map(str, spec.shape))
        raise ArgumentError(f"argument {spec.name} has no fixed shape ({extents}), so it cannot be filled")
    return random_values(shape, spec.dtype, rng)


def disagreement(got: AnyArray, want: AnyArray, dtype: str, rtol: float, atol: float) -> str:
    """How `got` differs from `want`, or "" when they agree.

    Integers must be equal. Floats may differ by atol + rtol × max(|want|, rms of want) elementwise. The error
    of a reordered sum goes with the typical size of its terms, not with a result that happens to be near 0.
    rtol is at least 16 units in the last place of the dtype. NaN and infinity must be in the same places.
    """
    if got.dtype.kind not in "fc" and dtype not in ("bfloat16",):
        wrong = got != want
        return _describe(got, want, wrong, 0.0) if wrong.any() else ""
    rtol = max(rtol, 16 * _epsilon(dtype))
    with np.errstate(all="ignore"):
        left, right = _widen(got, dtype), _widen(want, dtype)
        if _is_close(left, right, rtol, atol):
            return ""
        finite = np.isfinite(right)
        magnitude = np.abs(right)
        scale = float(np.sqrt(np.mean(np.square(right[finite], dtype=np.float64)))) if finite.any() else 0.0
        allowed = atol + rtol * np.maximum(magnitude, scale)
        same = (left == right) | (np.isnan(left) & np.isnan(right))
        wrong = ~(same | (finite & (np.abs(left - right) <= allowed)))
    return _describe(left, right, wrong, rtol) if wrong.any() else ""


def _is_close(left: AnyArray, right: AnyArray, rtol: float, atol: float) -> bool:
    """Whether all values are finite and no difference exceeds what elements of the typical size may have.
    This quick test settles nearly every result."""
    if not right.size:
        return True
    worst = float(np.max(np.abs(left - right)))
    scale = float(np.sqrt(np.mean(np.square(right, dtype=np.float64))))
    return bool(np.isfinite(worst)) and worst <= atol + rtol * scale


def _widen(values: AnyArray, dtype: str) -> AnyArray:
    if dtype == "bfloat16" and values.dtype == np.uint16:
        return (values.astype(np.uint32) << 16).view(np.float32)
    return values if values.dtype.itemsize >= 4 else values.astype(np.float32)


def _epsilon(dtype: str) -> float:
    return 2.0**-7 if dtype == "bfloat16" else float(np.finfo(dtype).eps)


def _describe(got: AnyArray, want: AnyArray, wrong: AnyArray, rtol: float) -> str:
    where = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
    place = ", ".join(str(int(i)) for i in where)
    tolerance = f" (relative tolerance {rtol:g})" if rtol else ""
    return (
        f"{int(wrong.sum())} of {wrong.size} elements differ; the first, at [{place}], "
        f"is {got[where]!s} and should be {want[where]!s}{tolerance}"
    )


_MOST_BYTES = 64 << 20
"""What is kept in all: filling more than that from the seed takes little of a trial that reads it."""


class Inputs:
    """Values for a trial's arguments, made from a seed once in a session.

    Small values are kept, mapped read-only. A candidate that writes astray dies instead of spoiling the next one's
    inputs.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[object, ...], AnyArray] = {}
        self._bytes = 0

    def value(self, spec: ArgSpec, seed: int, index: int) -> AnyArray | int | float:
        """Return what `fill` gives."""
        key = (spec.shape, spec.dtype, seed, index)
        if key in self._kept:
            return self._kept[key]
        value = fill(spec, seed, index)
        if isinstance(value, np.ndarray) and 0 < value.nbytes <= _MOST_BYTES - self._bytes:
            with suppress(OSError, MemoryError, ValueError):  # at one of the session's limits: then it is made anew
                self._kept[key] = _read_only(value)
                self._bytes += value.nbytes
        return value


def _read_only(values: AnyArray) -> AnyArray:
    """A copy that no one in this process can write to."""
    file = os.memfd_create("inputs")
    try:
        os.ftruncate(file, values.nbytes)
        with mmap.mmap(file, values.nbytes) as writable:
            writable[:] = values.tobytes()
        mapped = mmap.mmap(file, values.nbytes, prot=mmap.PROT_READ)
    finally:
        os.close(file)
    return np.frombuffer(mapped, dtype=values.dtype).reshape(values.shape)
