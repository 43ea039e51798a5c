"""How evenly the tasks of a parallel loop load the threads, when the last along an axis are smaller than the others.

Of 784 columns in panels of 512 there are two tasks for two threads, and yet one thread does 512 of them: 77 % of what
even parts would give.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def balance(whole: Floats | float, small: Floats | float, share: Floats | float, threads: int) -> Floats:
    """Return the part of all threads' time that they work.
    They work on `whole` tasks, and `small` ones that each take `share` of a whole one's time. Threads take a task
    when they have none, whole ones first."""
    rounds = np.ceil(np.divide(whole, threads))
    beside = (rounds * threads - whole) * np.floor(1.0 / np.maximum(share, 1e-9))  # small ones in the last round
    takes = rounds + np.ceil(np.maximum(0.0, small - beside) / threads) * share
    even: Floats = (whole + small * share) / (threads * takes)
    return even
