"""What a warp's tensor instructions do, in numpy: `events` are those of its 32 threads in order.

The layouts are those of the figures for mma.m16n8k16 and ldmatrix in the PTX manual.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


def load_matrices(events: Sequence[tuple[Any, ...]]) -> list[list[int]]:
    """("ldmatrix", site, row, trans) of each thread → its 8 elements, two of each of four matrices."""
    rows = [event[2] for event in events]
    trans = bool(events[0][3])
    found: list[list[int]] = []
    for lane in range(32):
        g, t = divmod(lane, 4)
        elements: list[int] = []
        for matrix in range(4):
            for e in (2 * t, 2 * t + 1):
                row, column = (e, g) if trans else (g, e)
                elements.append(rows[8 * matrix + row][column])
        found.append(elements)
    return found


def multiply(events: Sequence[tuple[Any, ...]]) -> list[list[float]]:
    """("mma", site, a, b, c) of each thread → its 4 sums."""
    a, b, c = np.zeros((16, 16)), np.zeros((16, 8)), np.zeros((16, 8))
    for lane, (_, _, own_a, own_b, own_c) in enumerate(events):
        g, t = divmod(lane, 4)
        for e in (0, 1):
            a[g, 2 * t + e], a[g + 8, 2 * t + e] = own_a[e], own_a[2 + e]
            a[g, 2 * t + 8 + e], a[g + 8, 2 * t + 8 + e] = own_a[4 + e], own_a[6 + e]
            b[2 * t + e, g], b[2 * t + 8 + e, g] = own_b[e], own_b[2 + e]
            c[g, 2 * t + e], c[g + 8, 2 * t + e] = own_c[e], own_c[2 + e]
    d = c + a @ b
    found: list[list[float]] = []
    for lane in range(32):
        g, t = divmod(lane, 4)
        found.append([float(d[g + row, 2 * t + e]) for row in (0, 8) for e in (0, 1)])
    return found


Instruction = Callable[[Sequence[tuple[Any, ...]]], Sequence[list[Any]]]

COLLECTIVE: dict[str, Instruction] = {"ldmatrix": load_matrices, "mma": multiply}
