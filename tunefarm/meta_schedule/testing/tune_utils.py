"""Inputs for what was tuned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tuner.errors import TuningError

__all__ = ["generate_input_data"]


def generate_input_data(
    input_shape: Sequence[int], input_dtype: str, *, low: int | None = None, high: int | None = None
) -> npt.NDArray[Any]:
    """Return random values: floats up to 1, integers of [low, high), 8 bits wide unless given otherwise.

    Raises TuningError for another kind of dtype.
    """
    rng = np.random.default_rng()
    if input_dtype.startswith("float"):
        return rng.uniform(size=tuple(input_shape)).astype(input_dtype)
    if input_dtype.startswith(("int", "uint")):
        low = (0 if input_dtype == "uint8" else -128 if input_dtype == "int8" else 0) if low is None else low
        high = (128 if input_dtype == "int8" else 256 if input_dtype == "uint8" else 10000) if high is None else high
        return rng.integers(low, high, tuple(input_shape)).astype(input_dtype)
    raise TuningError(f"no random values of {input_dtype}", hint="floats and integers have some")
