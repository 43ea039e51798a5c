"""Named runs of schedule steps, for the tests that look at the text each makes."""

from __future__ import annotations

from collections.abc import Callable

from compiler.schedule.core.schedule import Schedule
from compiler.tir.nodes import PrimFunc

Case = Callable[[], tuple[PrimFunc, Schedule]]
CASES: dict[str, Case] = {}


def case(make: Callable[[], PrimFunc]) -> Callable[[Callable[[Schedule], None]], None]:
    """Register the decorated steps, applied to the function `make` gives, under the name of the steps."""

    def register(steps: Callable[[Schedule], None]) -> None:
        def build() -> tuple[PrimFunc, Schedule]:
            func = make()
            sch = Schedule(func, seed=0)
            steps(sch)
            return func, sch

        CASES[steps.__name__] = build

    return register
