"""Constants of graphs as they are saved beside a text."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from compiler.runtime.core.dtypes import storage_dtype
from compiler.runtime.core.ndarray import NDArray, numpyasarray
from compiler.script.saved import register_kept


def encode(array: NDArray) -> dict[str, Any]:
    """An array as JSON: type, shape, and the bytes in base64."""
    host = array if array.is_host else numpyasarray(array.numpy())
    return {"dtype": host.dtype, "shape": list(host.shape), "data": base64.b64encode(host.as_bytes()).decode()}


def decode(saved: Any) -> NDArray:
    """The array that `encode` made `saved` of. Raises ValueError for anything else."""
    try:
        data = base64.b64decode(saved["data"], validate=True)
        values = np.frombuffer(data, storage_dtype(saved["dtype"])).reshape([int(size) for size in saved["shape"]])
    except (KeyError, TypeError) as error:
        raise ValueError(f"this is no saved array: {error}") from None
    return numpyasarray(values)


register_kept("relax.array", NDArray, encode, decode)
