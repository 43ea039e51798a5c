"""PTX's tensor instructions on the registers of a warp's 32 threads, by the figures of the PTX manual."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

_LANES = 32
Asked = Sequence[tuple[Any, ...]]


def _whole(numbers: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return numbers.astype(np.int64)


# What 32 bits of an operand hold, by PTX's name of its elements.
_ELEMENTS: dict[str, Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]] = {
    "f16": lambda bits: bits.view(np.float16).astype(np.float64),
    "bf16": lambda bits: (bits.view(np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64),
    "s8": lambda bits: _whole(bits.view(np.int8)),
    "u8": lambda bits: _whole(bits.view(np.uint8)),
}


def mma(asked: Asked) -> list[tuple[int, ...]]:
    """("mma", (dtypes of d, a, b, c), a, b, c) of each lane, in registers of 32 bits → d of each."""
    _, (_, left, right, kind), *_ = asked[0]
    a, b = (
        _ELEMENTS[name](np.array([lane[i] for lane in asked], np.uint32)).reshape(_LANES, registers, -1)
        for i, name, registers in ((2, left, 4), (3, right, 2))
    )
    sums = np.array([lane[4] for lane in asked], np.uint32).view({"f32": np.float32, "s32": np.int32}[kind])
    size = a.shape[2]  # elements of a register
    x, y, d = np.zeros((16, 8 * size)), np.zeros((8 * size, 8)), np.zeros((16, 8))
    for lane in range(_LANES):
        group, member = divmod(lane, 4)
        for r in range(4):
            column = size * member + r // 2 * 4 * size
            x[group + r % 2 * 8, column : column + size] = a[lane, r]
            d[group + r // 2 * 8, 2 * member + r % 2] = sums[lane, r]
        for r in range(2):
            row = size * member + r * 4 * size
            y[row : row + size, group] = b[lane, r]
    d = (d + x @ y).astype(sums.dtype)
    places = [(lane // 4 + r // 2 * 8, 2 * (lane % 4) + r % 2) for lane in range(_LANES) for r in range(4)]
    bits = np.array([d[place] for place in places], sums.dtype).view(np.uint32).reshape(_LANES, 4)
    return [tuple(int(x) for x in lane) for lane in bits]


def ldmatrix(asked: Asked) -> list[tuple[int, ...]]:
    """("ldmatrix", 16 bytes at the lane's address, whether it transposes) → four registers of each lane."""
    trans = asked[0][2]
    rows = np.frombuffer(b"".join(lane[1] for lane in asked), np.uint16).reshape(4, 8, 8)
    matrices = rows.transpose(0, 2, 1) if trans else rows
    pairs = np.ascontiguousarray(matrices).view(np.uint32)  # of each matrix and row, four
    return [tuple(int(pairs[m, lane // 4, lane % 4]) for m in range(4)) for lane in range(_LANES)]


EXCHANGES = {"mma": mma, "ldmatrix": ldmatrix}
