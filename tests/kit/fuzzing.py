"""How much is made up at random: some in `make test`, the same each time; in `make fuzz` FUZZ_CASES new ones."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

FUZZ_CASES = int(os.environ.get("FUZZ_CASES", "0"))
_A_FIFTH = 5  # hypothesis thinks long about each of its examples


def cases(usual: int) -> int:
    return FUZZ_CASES or usual


def examples(usual: int) -> int:
    """For hypothesis."""
    return FUZZ_CASES // _A_FIFTH or usual


def load_profile() -> None:
    """Hypothesis' settings where a test has none: nothing depends on the day or on a busy machine."""
    slow = [HealthCheck.too_slow]  # it measures how long examples take to make
    settings.register_profile("tunefarm", derandomize=not FUZZ_CASES, deadline=None, suppress_health_check=slow)
    settings.load_profile("tunefarm")
