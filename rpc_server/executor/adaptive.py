"""The decision that a kernel has been timed enough. Pure: samples in, a verdict out."""

from __future__ import annotations

import math
from collections.abc import Sequence

from compiler.runtime.measure.statistics import median_interval
from rpc_server.wire.trial_messages import EvaluatorOptions

AT_ONCE = 2.0
"""Times `slower_than` at which a single measurement says enough: no disturbance doubles a time unnoticed for long."""
SHORT_S = 0.005
"""What takes less says little: threads that were asleep share a core until the system finds them one each, which takes
milliseconds, and twice the time of the first calls is what that costs. Nor is there anything to save."""
PIECE_S = 0.01
"""Samples are taken in pieces about so long, so that of a disturbed one little has to be taken again."""
LONG_S = 0.05
"""Who takes a core from another process keeps it for some milliseconds: of what takes longer that is a small part."""


def is_hopeless(spent_s: float, calls: int, options: EvaluatorOptions) -> bool:
    """Whether one measurement of so many calls, even a warm-up, already rules the kernel out."""
    return options.slower_than > 0 and spent_s > max(SHORT_S, AT_ONCE * options.slower_than * calls)


def piece(number: int, once_s: float, options: EvaluatorOptions) -> int:
    """Return how many of a sample's `number` calls, each of about `once_s` seconds, to time in one go.
    It is all of them if a disturbed measurement would not be repeated anyway."""
    if options.slower_than <= 0 or once_s <= 0:
        return number
    return min(number, math.ceil(PIECE_S / once_s))


def is_doubtful(spent_s: float, calls: int, interrupted: bool, options: EvaluatorOptions) -> bool:
    """Return whether to repeat a measurement that speaks against the kernel; the shorter of both counts.
    It is repeated if it alone would reject the kernel and another process had a core meanwhile. Long measurements
    are not repeated, because an interruption is a small part of them."""
    if options.slower_than <= 0 or spent_s > LONG_S:
        return False
    slow = spent_s > options.slower_than * calls
    return is_hopeless(spent_s, calls, options) or (interrupted and slow)


def is_slower(samples: Sequence[float], options: EvaluatorOptions) -> bool:
    """Whether the kernel is clearly slower than `slower_than`.
    Disturbances only add time, so the least sample is what counts, and two samples make it unlikely that all of them
    were disturbed."""
    return options.slower_than > 0 and len(samples) >= 2 and min(samples) > options.slower_than


def is_enough(samples: Sequence[float], options: EvaluatorOptions) -> bool:
    """Whether another sample (seconds per call) would tell little."""
    if is_slower(samples, options):
        return True
    if len(samples) < options.repeat:
        return False
    if len(samples) >= options.max_repeat:
        return True
    found = median_interval(samples)
    widest = max(found.high - found.median, found.median - found.low)
    return widest <= options.precision * found.median
