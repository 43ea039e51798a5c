"""Values for a trial's arguments, made from a seed once in a session and kept, as far as they are small.

Kept values are mapped read-only: a candidate that writes astray dies of it instead of spoiling the next one's inputs.
"""

from __future__ import annotations

import mmap
import os
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.artifact import ArgSpec
from rpc_server.executor.compare import fill

AnyArray = npt.NDArray[Any]

_MOST_BYTES = 64 << 20
"""What is kept in all: filling more than that from the seed takes little of a trial that reads it."""


class Inputs:
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
