"""The measuring protocol on a fake clock, the native loop on real kernels, and the function registry."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from compiler.errors import ArgumentError, DeviceError
from compiler.runtime.core import registry
from compiler.runtime.core.device import cpu, cuda
from compiler.runtime.core.module import MissingFunctionError
from compiler.runtime.core.ndarray import NDArray, array, zeros
from compiler.runtime.load import load_artifact
from compiler.runtime.measure.timing import BenchmarkResult, TimingOptions, measure
from tests.kit.compiler.llvm_kernels import ADD, ADD_ENTRY, COUNT, COUNT_ENTRY, artifact


class FakeDevice:
    """Each call takes `cost` ns; notes what happened, in order."""

    def __init__(self, cost: float) -> None:
        self.cost = cost
        self.log: list[tuple[str, float]] = []

    def run(self, number: int) -> int:
        self.log.append(("run", number))
        return int(self.cost * number)

    def prepare(self) -> None:
        self.log.append(("prepare", 0))

    def sleep(self, seconds: float) -> None:
        self.log.append(("sleep", seconds))

    def measure(self, **options: Any) -> BenchmarkResult:
        return measure(self.run, TimingOptions(**options), self.prepare, self.sleep)


def test_one_warm_up_then_repeats() -> None:
    device = FakeDevice(1000)
    result = device.measure(number=3, repeat=2)
    assert device.log == [("run", 1), ("prepare", 0), ("run", 3), ("prepare", 0), ("run", 3)]
    assert result.results == pytest.approx((1e-6, 1e-6))


def test_min_repeat_ms_raises_number_and_keeps_it() -> None:
    device = FakeDevice(1e5)  # 0.1 ms
    result = device.measure(number=2, repeat=2, min_repeat_ms=5)
    runs = [n for what, n in device.log if what == "run"]
    assert runs == [1, 2, 51, 51]
    assert [what for what, _ in device.log].count("prepare") == 2
    assert result.results == pytest.approx((1e-4, 1e-4))


def test_number_grows_by_at_least_the_golden_ratio() -> None:
    times = iter([100, 990_000, 999_999, 2_000_000])
    runs: list[int] = []

    def run(number: int) -> int:
        runs.append(number)
        return next(times)

    measure(run, TimingOptions(number=10, min_repeat_ms=1))
    assert runs == [1, 10, 16, 25]


def test_a_repeat_that_goes_on_throws_no_call_away() -> None:
    times = iter([20_000, 970_000, 40_000, 1_010_000])  # the first call is slow
    runs: list[int] = []

    def run(number: int) -> int:
        runs.append(number)
        return next(times)

    result = measure(run, TimingOptions(number=1, repeat=2, min_repeat_ms=1), warm_up=False, anew=False)
    assert runs == [1, 49, 1, 51]
    assert result.results == pytest.approx((1_030_000e-9 / 51, 1_010_000e-9 / 51))


def test_zero_times_end_after_the_limit() -> None:
    device = FakeDevice(0)
    result = device.measure(number=4, min_repeat_ms=1, limit_zero_time_iterations=7)
    assert [n for what, n in device.log if what == "run"] == [1] + [4] * 7
    assert result.results == (0.0,)
    options = TimingOptions(number=4, min_repeat_ms=1, limit_zero_time_iterations=7)
    assert measure(lambda _number: 0, options, anew=False).results == (0.0,)


def test_cooldown_comes_at_multiples() -> None:
    device = FakeDevice(10)
    device.measure(number=1, repeat=5, cooldown_interval_ms=250, repeats_to_cooldown=2)
    names = [what for what, _ in device.log if what != "prepare"]
    assert names == ["run", "run", "sleep", "run", "run", "sleep", "run", "run", "sleep"]
    assert ("sleep", 0.25) in device.log


@pytest.mark.parametrize(
    "options",
    [
        {"number": 0}, {"number": 1.5}, {"number": True}, {"repeat": 0}, {"min_repeat_ms": -1},
        {"min_repeat_ms": float("nan")}, {"limit_zero_time_iterations": -1}, {"cooldown_interval_ms": "1"},
        {"repeats_to_cooldown": 0}, {"f_preproc": None}, {"min_repeat_ms": float("inf")},
    ],
)  # fmt: skip
def test_options_out_of_range(options: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match=next(iter(options))):
        TimingOptions(**options)


def test_statistics() -> None:
    result = BenchmarkResult((1.0, 2.0, 3.0, 6.0))
    assert (result.mean, result.median, result.min, result.max) == (3.0, 2.5, 1.0, 6.0)
    assert result.std == pytest.approx(np.std([1, 2, 3, 6]))
    assert "median (ms)" in str(result)
    assert "4 repeats" in str(result)


# -- real kernels ------------------------------------------------------------------------------------------


def test_counts_calls_exactly() -> None:
    module = load_artifact(artifact(COUNT, COUNT_ENTRY))
    calls = zeros((1,), "int64")
    result = module.time_evaluator("count", cpu(), number=10, repeat=3)(calls)
    assert calls[0] == 1 + 10 * 3
    assert len(result.results) == 3
    assert all(seconds > 0 for seconds in result.results)


def test_min_repeat_ms_on_a_kernel() -> None:
    module = load_artifact(artifact(COUNT, COUNT_ENTRY))
    calls = zeros((1,), "int64")
    result = module.time_evaluator(module.entry_name, cpu(), number=1, min_repeat_ms=2)(calls)
    assert result.mean * calls[0] >= 0.002


def test_arguments_are_checked_before_anything_runs() -> None:
    evaluate = load_artifact(artifact(ADD, ADD_ENTRY)).time_evaluator("add", cpu())
    with pytest.raises(ArgumentError, match=r"argument 2 \(C\) has shape"):
        evaluate(zeros((16,)), zeros((16,)), zeros((17,)))


def test_bad_evaluators() -> None:
    module = load_artifact(artifact(ADD, ADD_ENTRY))
    with pytest.raises(MissingFunctionError):
        module.time_evaluator("sub", cpu())
    with pytest.raises(DeviceError, match=r"cannot be timed on cuda\(0\)"):
        module.time_evaluator("add", cuda())
    with pytest.raises(ArgumentError, match="number"):
        module.time_evaluator("add", cpu(), number=0)
    with pytest.raises(registry.RegistryError, match="no global function 'flush'"):
        module.time_evaluator("add", cpu(), f_preproc="flush")


def test_preprocessor_gets_the_arguments_before_each_repeat() -> None:
    module = load_artifact(artifact(COUNT, COUNT_ENTRY))
    calls = zeros((1,), "int64")
    seen: list[int] = []

    def note(argument: NDArray) -> None:
        assert argument is calls
        seen.append(int(argument[0]))

    registry.register_func("test_timing.note", note)
    try:
        module.time_evaluator("count", cpu(), number=5, repeat=3, f_preproc="test_timing.note")(calls)
    finally:
        registry.remove_global_func("test_timing.note")
    assert seen == [1, 6, 11]


def test_imported_function_can_be_timed() -> None:
    outer = load_artifact(artifact(ADD, ADD_ENTRY))
    outer.import_module(load_artifact(artifact(COUNT, COUNT_ENTRY)))
    calls = array(np.zeros(1, "int64"))
    outer.time_evaluator("count", cpu(), number=2)(calls)
    assert calls[0] == 3


# -- the registry ------------------------------------------------------------------------------------------


def test_registry() -> None:
    @registry.register_func("test_timing.f")
    def f() -> int:
        return 1

    @registry.register_func
    def test_timing_plain() -> int:
        return 2

    try:
        assert registry.get_global_func("test_timing.f") is f
        assert registry.get_global_func("test_timing_plain")() == 2
        assert "test_timing.f" in registry.list_global_func_names()
        with pytest.raises(ValueError, match="already registered"):
            registry.register_func("test_timing.f", f)
        registry.register_func("test_timing.f", test_timing_plain, override=True)
        assert registry.get_global_func("test_timing.f") is test_timing_plain
    finally:
        registry.remove_global_func("test_timing.f")
        registry.remove_global_func("test_timing_plain")
    assert registry.get_global_func("test_timing.f", allow_missing=True) is None
    with pytest.raises(registry.RegistryError, match="no global function"):
        registry.get_global_func("test_timing.f")
    with pytest.raises(registry.RegistryError, match="cannot be called"):
        registry.register_func("x", 3)  # type: ignore[type-var]
