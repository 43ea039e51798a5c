"""The shares of a model's kernels in its profile."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from compiler.runtime.measure.report import Duration, Report
from tunefarm.cli.models.build import BuiltModel, _how_to_tune_more, _seconds
from tunefarm.cli.models.configs import shares_of
from tuner.kernels.model import ModelKernel


def test_a_kernel_with_weights_packed_ahead_is_the_kernel() -> None:
    calls = [{"Name": f"dense{end}", "Duration (us)": Duration(2.0)} for end in ("", "_prepacked")]
    report = cast(Report, SimpleNamespace(calls=calls))
    kernel = cast(ModelKernel, cast(Any, SimpleNamespace(names=("dense",), key="k" * 64)))
    assert _seconds(report) == {"dense": 4e-6}
    (share,) = shares_of(report, [kernel], {})
    assert (share.name, share.calls, share.seconds, share.workload) == ("dense", 2, 4e-6, "k" * 64)


def test_nobody_is_sent_to_tune_what_is_tuned_already() -> None:
    def built(*tuned: bool) -> BuiltModel:
        kernels = tuple(SimpleNamespace(reply=SimpleNamespace(tuned=each)) for each in tuned)
        return cast(BuiltModel, cast(Any, SimpleNamespace(kernels=kernels, families=())))

    assert "tunefarm tune small.onnx" in _how_to_tune_more(built(True, False), "small.onnx")
    assert "every kernel worth tuning is tuned" in _how_to_tune_more(built(True, True), "small.onnx")
