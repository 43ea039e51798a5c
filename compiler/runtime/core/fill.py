"""Values to measure with: random arrays of any dtype, the same on every machine for one seed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.dtype import parse_dtype


def random_values(shape: Sequence[int], dtype: str, rng: np.random.Generator) -> npt.NDArray[Any]:
    """Return random values of `shape`, which has no open dimensions.
    Floats: uniform in [-1, 1). int8 and int16: -8 to 7. Wider and unsigned integers, which may be indices: 0 to 7.
    bool: both. bfloat16 comes as float32."""
    parsed = parse_dtype(dtype)
    if parsed.is_float:
        wide = np.float64 if parsed.bits == 64 else np.float32
        values: npt.NDArray[Any] = rng.random(shape, dtype=wide)
        values *= 2
        values -= 1
        return values if parsed.code == "bfloat" or parsed.bits >= 32 else values.astype(np.float16)
    if parsed.code == "bool":
        return rng.integers(0, 2, shape).astype(np.bool_)
    low = -8 if parsed.is_signed and parsed.bits <= 16 else 0
    return rng.integers(low, 8, shape, dtype=np.int64).astype(dtype)
