"""The times of numpy's library for a family's sizes on this machine, to compare tuned kernels with."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from compiler.tir.ops import as_int
from tuner.families.family import AnySpec, FamilySpec
from tuner.families.sizes import SizeList

_SAMPLES = 5
_SAMPLE_S = 0.005
_MOST_S = 5.0
"""Calls that take longer in all are left out, and so are the sizes after them."""

Arrays = list[Any]

_CALLS: Mapping[str, Callable[[Arrays], object]] = {
    "dense": lambda held: np.matmul(held[0], held[1].T, out=held[2]),
    "matmul": lambda held: np.matmul(held[0], held[1], out=held[2]),
    "batch_matmul": lambda held: np.matmul(held[0], held[1], out=held[2]),
}


def library_times(spec: AnySpec, sizes: SizeList) -> dict[str, tuple[float | None, ...]]:
    """Return seconds that numpy takes at each size, by the name of its library.
    {} for what no library of numpy computes."""
    call = _CALLS.get(spec.op) if isinstance(spec, FamilySpec) and spec.dtype in ("float32", "float64") else None
    if call is None:
        return {}
    found: list[float | None] = []
    ends = time.monotonic() + _MOST_S
    for size in sizes.sizes:
        func = spec.func_at(sizes, size)
        shapes = [tuple(as_int(extent) or 1 for extent in func.buffer_map[p].shape) for p in func.params]
        dtype = func.buffer_map[func.params[0]].dtype
        held = [np.ones(shape, dtype) for shape in shapes]
        found.append(_seconds(call, held) if time.monotonic() < ends else None)
    return {f"numpy ({_blas()})": tuple(found)}


def _seconds(call: Callable[[Arrays], object], held: Arrays) -> float:
    """The median of samples of calls."""
    call(held)
    begun = time.perf_counter()
    call(held)
    number = max(1, int(_SAMPLE_S / max(1e-7, time.perf_counter() - begun)))
    samples = []
    for _ in range(_SAMPLES):
        begun = time.perf_counter()
        for _ in range(number):
            call(held)
        samples.append((time.perf_counter() - begun) / number)
    return statistics.median(samples)


def _blas() -> str:
    config: Any = np.show_config(mode="dicts")
    return str(config.get("Build Dependencies", {}).get("blas", {}).get("name", "")) or "its own loops"
