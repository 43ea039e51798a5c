"""A benchmark report's findings about one kernel."""

from __future__ import annotations

from typing import cast

import pytest

from tuner.bench.changes import LEAST_HISTORY, judge
from tuner.bench.report import ReportLine
from tuner.records.farm.model_farm import BenchResult


class _Measured:
    failure = None
    noise = ()


@pytest.mark.parametrize(
    ("before", "verdict"),
    [(0, "new"), (1, f"too early to judge: 1 of {LEAST_HISTORY} runs before"), (LEAST_HISTORY, "")],
)
def test_only_the_first_result_is_new(before: int, verdict: str) -> None:
    line = ReportLine(cast(BenchResult, _Measured()), None, judge([1e-3] * before, 1e-3))  # type: ignore[arg-type]
    assert line.verdict == verdict
