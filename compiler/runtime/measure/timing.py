"""Measuring how long a function takes: the protocol of repeats, and its result.

The loop around the calls is native code (`tunefarm_time` in native.ll); what is here runs between repeats.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from statistics import fmean, median, pstdev

from compiler.errors import ArgumentError
from compiler.runtime.measure import conditions, statistics
from compiler.runtime.measure.conditions import Reading
from compiler.runtime.measure.statistics import Interval

_GROWTH = 1.618  # at least this much more calls at each attempt to fill min_repeat_ms


@dataclass(frozen=True, slots=True)
class TimingOptions:
    """How to measure: `repeat` results, each the mean of `number` calls.

    min_repeat_ms: raise `number` until a repeat lasts this long. limit_zero_time_iterations: give up raising
    after so many repeats of no measurable time. cooldown_interval_ms: pause after each repeat whose index
    `repeats_to_cooldown` divides. f_preproc: a registered global function, called with the function's
    arguments before each repeat. Raises ArgumentError for a value out of range.
    """

    number: int = 10
    repeat: int = 1
    min_repeat_ms: float = 0
    limit_zero_time_iterations: int = 100
    cooldown_interval_ms: float = 0
    repeats_to_cooldown: int = 1
    f_preproc: str = ""

    def __post_init__(self) -> None:
        least = {"number": 1, "repeat": 1, "repeats_to_cooldown": 1}
        for option in fields(self):
            value = getattr(self, option.name)
            if option.name == "f_preproc":
                if not isinstance(value, str):
                    raise ArgumentError(f"f_preproc is the name of a global function, not {value!r}")
                continue
            wanted = (int, float) if option.name.endswith("_ms") else int
            lowest = least.get(option.name, 0)
            # written so that NaN is refused as well
            if isinstance(value, bool) or not isinstance(value, wanted) or not lowest <= value < 1 << 53:
                what = "a number" if option.name.endswith("_ms") else "an integer"
                raise ArgumentError(f"{option.name} is {what} of at least {lowest}, not {value!r}")


@dataclass(frozen=True, slots=True)
class BenchmarkResult:
    """`results`: seconds per call, one for each repeat. The statistics are over the repeats, in seconds.

    `warnings` says what may have disturbed the measurement, a sentence each: load on the cores, preemption,
    a thread that changed cores, a clock that changed, cores slowed down for heat.
    """

    results: tuple[float, ...]
    warnings: tuple[str, ...] = ()

    @property
    def mean(self) -> float:
        return fmean(self.results)

    @property
    def median(self) -> float:
        return median(self.results)

    @property
    def min(self) -> float:
        return min(self.results)

    @property
    def max(self) -> float:
        return max(self.results)

    @property
    def std(self) -> float:
        """Population standard deviation."""
        return pstdev(self.results)

    @property
    def mad(self) -> float:
        """Return the median absolute deviation from the median.
        It is a measure of scatter that a few outliers do not change."""
        return statistics.summarise(self.results)[1]

    @property
    def confidence_interval(self) -> Interval:
        """Where the median lies with 95 % confidence: `.low`, `.median`, `.high`."""
        return statistics.median_interval(self.results)

    @property
    def outliers(self) -> tuple[int, ...]:
        """Which repeats are far from the median (a modified z-score above 3.5)."""
        return statistics.outliers(self.results)

    def __str__(self) -> str:
        names = ("mean", "median", "max", "min", "std", "mad")
        head = "".join(f"{name + ' (ms)':>14}" for name in names)
        values = "".join(f"{getattr(self, name) * 1e3:>14.4f}" for name in names)
        interval, far = self.confidence_interval, len(self.outliers)
        between = f"median between {interval.low * 1e3:.4f} and {interval.high * 1e3:.4f} ms with 95 % confidence"
        notes = [f"{far} of {len(self.results)} repeats are outliers"] if far else []
        lines = [f"{len(self.results)} repeats", head, values, between, *notes]
        return "\n".join([*lines, *(f"warning: {text}" for text in self.warnings)])


def measure(
    run: Callable[[int], int], options: TimingOptions, prepare: Callable[[], object] = lambda: None,
    sleep: Callable[[float], object] = time.sleep, *, threads: int = 1,
    observe: Callable[[], Reading] | None = conditions.take,
    until: Callable[[Sequence[float]], bool] = lambda _results: False, warm_up: bool = True, anew: bool = True,
) -> BenchmarkResult:  # fmt: skip
    """Measure by `run(n)`, which makes n calls and returns the nanoseconds they took.

    It makes 1 + number x repeat calls if nothing raises `number`; the first is a warm-up and is not counted. `prepare`
    runs before each repeat, outside the measured time. A raised `number` stays for later repeats. `observe` reads the
    machine's counters before the first repeat and after the last, for the warnings. `threads` is how many the function
    may run on. `until` is asked after each repeat whether there are enough. With `warm_up` false the caller has called
    the function already. With `anew` false a repeat that is too short is continued, not started again with more calls.
    """
    if warm_up:
        run(1)
    before = observe() if observe else None
    number = options.number
    results: list[float] = []
    for index in range(options.repeat):
        prepare()
        number, nanoseconds = (_tried_anew if anew else _gone_on_with)(run, number, options)
        results.append(nanoseconds * 1e-9 / number)
        if until(results):
            break
        if options.cooldown_interval_ms > 0 and index % options.repeats_to_cooldown == 0:
            sleep(options.cooldown_interval_ms * 1e-3)
    disturbed = conditions.warnings(before, observe(), threads) if observe and before else ()
    return BenchmarkResult(tuple(results), disturbed)


def _tried_anew(run: Callable[[int], int], number: int, options: TimingOptions) -> tuple[int, int]:
    """One repeat, tried again with more calls while it is too short. Returns (calls, nanoseconds)."""
    enough = options.min_repeat_ms * 1e6
    zeros = 0
    while True:
        spent = run(number)
        zeros += spent <= 0
        if spent >= enough or zeros >= options.limit_zero_time_iterations:
            return number, max(spent, 0)
        if spent > 0:
            number = max(int(enough * number / spent) + 1, int(number * _GROWTH))


def _gone_on_with(run: Callable[[int], int], number: int, options: TimingOptions) -> tuple[int, int]:
    """One repeat, continued while it is too short: each of its calls counts.
    Returns (calls, nanoseconds)."""
    enough = options.min_repeat_ms * 1e6
    calls = spent = zeros = 0
    while True:
        took = max(run(number), 0)
        calls, spent, zeros = calls + number, spent + took, zeros + (took == 0)
        if spent >= enough or zeros >= options.limit_zero_time_iterations:
            return calls, spent
        if spent > 0:
            number = max(1, math.ceil((enough - spent) * calls / spent))
