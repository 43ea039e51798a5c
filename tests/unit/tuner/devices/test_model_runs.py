"""Times of the kernels of a model that ran whole."""

from types import SimpleNamespace
from typing import cast

import pytest

from compiler.runtime.measure.report import Duration, Report
from tuner.devices.model_runs import kernel_seconds


def test_a_kernel_has_its_name_in_the_model_also_where_its_weights_are_packed_ahead() -> None:
    times = [("conv_prepacked", 2.0), ("conv", 3.0), ("add", 1.0)]
    calls = [{"Name": name, "Duration (us)": Duration(us)} for name, us in times]
    found = kernel_seconds(cast(Report, SimpleNamespace(calls=calls)))
    assert found == {"conv": pytest.approx(5e-6), "add": pytest.approx(1e-6)}
