"""How evenly a parallel loop's tasks load the threads, when the last tasks along an axis are smaller.

Of 784 columns in panels of 512 there are two tasks for two threads, and yet one thread does 512 of them. That is 77
% of the speed of even parts.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def balance(whole: Floats | float, small: Floats | float, share: Floats | float, threads: int) -> Floats:
    """Return the part of all threads' time in which they work.
    They work on `whole` tasks, and on `small` ones that each take `share` of a whole one's time. Idle threads take
    the next task, whole ones first."""
    rounds = np.ceil(np.divide(whole, threads))
    beside = (rounds * threads - whole) * np.floor(1.0 / np.maximum(share, 1e-9))  # small ones in the last round
    takes = rounds + np.ceil(np.maximum(0.0, small - beside) / threads) * share
    even: Floats = (whole + small * share) / (threads * takes)
    return even
