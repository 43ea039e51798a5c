"""A warp's tensor instructions in numpy: `events` are those of its 32 threads in order.

The layouts are those of the figures for mma.m16n8k16, mma.m16n8k32 and ldmatrix in the PTX manual.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


def load_matrices(events: Sequence[tuple[Any, ...]]) -> list[list[int]]:
    """("ldmatrix", site, row, trans) of each thread → its 8 elements, two of each of four matrices; or 16 bytes where
    a row has 16."""
    rows = [event[2] for event in events]
    trans, size = bool(events[0][3]), len(rows[0]) // 8
    found: list[list[int]] = []
    for lane in range(32):
        g, t = divmod(lane, 4)
        elements: list[int] = []
        for matrix in range(4):
            for e in (2 * t, 2 * t + 1):
                row, column = (e, g) if trans else (g, e)
                elements += rows[8 * matrix + row][column * size : (column + 1) * size]
        found.append(elements)
    return found


def multiply(events: Sequence[tuple[Any, ...]]) -> list[list[float]]:
    """("mma", site, a, b, c) of each thread → its 4 sums."""
    size = len(events[0][2]) // 4  # neighbours along k in one register: 2 elements of 16 bits, 4 of 8
    half = 4 * size
    a, b, c = np.zeros((16, 2 * half)), np.zeros((2 * half, 8)), np.zeros((16, 8))
    for lane, (_, _, own_a, own_b, own_c) in enumerate(events):
        g, t = divmod(lane, 4)
        near = slice(size * t, size * (t + 1))
        far = slice(half + size * t, half + size * (t + 1))
        a[g, near], a[g + 8, near] = own_a[:size], own_a[size : 2 * size]
        a[g, far], a[g + 8, far] = own_a[2 * size : 3 * size], own_a[3 * size :]
        b[near, g], b[far, g] = own_b[:size], own_b[size:]
        c[g, 2 * t : 2 * t + 2], c[g + 8, 2 * t : 2 * t + 2] = own_c[:2], own_c[2:]
    d = c + a @ b  # float64: exact for bytes, too
    found: list[list[float]] = []
    for lane in range(32):
        g, t = divmod(lane, 4)
        found.append([float(d[g + row, 2 * t + e]) for row in (0, 8) for e in (0, 1)])
    return found


Instruction = Callable[[Sequence[tuple[Any, ...]]], Sequence[list[Any]]]

COLLECTIVE: dict[str, Instruction] = {"ldmatrix": load_matrices, "mma": multiply}
