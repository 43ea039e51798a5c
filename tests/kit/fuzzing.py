"""How much is made up at random: some in `make test`, the same each time; in `make fuzz` FUZZ_CASES new ones."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

FUZZ_CASES = int(os.environ.get("FUZZ_CASES", "0"))
_A_FIFTH = 5  # hypothesis thinks long about each of its examples


def cases(usual: int) -> int:
    return FUZZ_CASES or usual


def examples(usual: int) -> int:
    """For hypothesis."""
    return FUZZ_CASES // _A_FIFTH or usual


def load_profile() -> None:
    """Set what hypothesis does where a test says nothing: it depends on no day, and on no other test.

    It would read every module that is imported for constants to try. Which ones those are differs from worker to
    worker, and a clean clone's workers would each parse all of the source. `make fuzz` has them.
    """
    slow = [HealthCheck.too_slow]  # it measures how long examples take to make
    settings.register_profile("tunefarm", derandomize=not FUZZ_CASES, deadline=None, suppress_health_check=slow)
    settings.load_profile("tunefarm")
    if not FUZZ_CASES:
        vars(providers)["_get_local_constants"] = lambda: providers._local_constants
