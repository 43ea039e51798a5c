"""Profiling reports: tables, CSV, JSON and back; the profiler on real kernels; event counters."""

from __future__ import annotations

import csv
import io
import json
import mmap
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.errors import ArgumentError, DeviceError
from compiler.runtime.core.device import cpu
from compiler.runtime.core.ndarray import zeros
from compiler.runtime.load import load_artifact
from compiler.runtime.measure.counters import EVENTS, Counters, available
from compiler.runtime.measure.profiling import HardwareCounters, Profiler, profile_function
from compiler.runtime.measure.report import Count, Duration, Percent, Ratio, Report
from tests.kit.compiler.llvm_kernels import ADD, ADD_ENTRY, artifact


def call(name: str, us: float, device: str = "cpu0", shapes: str = "float32[8]", **more: Any) -> dict[str, Any]:
    row = {"Name": name, "Duration (us)": Duration(us), "Count": Count(1), "Device": device}
    return row | {"Argument Shapes": shapes} | more


REPORT = Report(
    [call("dense", 10.5), call("relu", 2.0), call("dense", 1500.25), call("dense", 1.0, shapes="float32[9]")],
    {"cpu0": {"Duration (us)": Duration(1600.0), "Percent": Percent(94.6)}},
    {"Executor": "VM"},
)


def test_table_joins_equal_calls_and_sorts() -> None:
    assert REPORT.table() == (
        "Name   Duration (us)  Percent  Device  Count  Argument Shapes\n"
        "dense       1,510.75           cpu0        2  float32[8]\n"
        "relu            2.00           cpu0        1  float32[8]\n"
        "dense           1.00           cpu0        1  float32[9]\n"
        "-------------------------------------------------------------\n"
        "Sum         1,513.75                       4\n"
        "Total       1,600.00  94.60    cpu0\n"
        "\n"
        "Configuration\n"
        "Executor: VM\n"
    )
    assert str(REPORT) == REPORT.table()


def test_table_in_order_of_appearance_without_sums() -> None:
    lines = REPORT.table(aggregate=False, col_sums=False).splitlines()
    assert [line.split()[0] for line in lines[1:5]] == ["dense", "relu", "dense", "dense"]
    assert "Sum" not in REPORT.table(col_sums=False)
    unsorted = REPORT.table(sort=False).splitlines()
    assert [line.split()[0] for line in unsorted[1:4]] == ["dense", "relu", "dense"]


def test_csv_holds_the_calls_only() -> None:
    rows = list(csv.DictReader(io.StringIO(REPORT.csv())))
    assert [float(row["Duration (us)"]) for row in rows] == [10.5, 2.0, 1500.25, 1.0]
    assert "VM" not in REPORT.csv()


def test_json_tags_every_metric() -> None:
    data = json.loads(REPORT.json())
    assert data["calls"][0]["Duration (us)"] == {"microseconds": 10.5}
    assert data["calls"][0]["Count"] == {"count": 1}
    assert data["calls"][0]["Name"] == {"string": "dense"}
    assert data["device_metrics"]["cpu0"]["Percent"] == {"percent": 94.6}


METRICS = st.one_of(
    st.builds(Duration, st.floats(0, 1e12)), st.builds(Count, st.integers(0, 2**63)),
    st.builds(Percent, st.floats(0, 100)), st.builds(Ratio, st.floats(-1e9, 1e9)), st.text(max_size=20),
)  # fmt: skip
ROWS = st.dictionaries(st.text(max_size=12), METRICS, max_size=5)


@given(st.lists(ROWS, max_size=4), st.dictionaries(st.text(max_size=5), ROWS, max_size=2), ROWS)
def test_json_reads_back(calls: list[Any], devices: dict[str, Any], configuration: dict[str, Any]) -> None:
    report = Report(calls, devices, configuration)
    assert Report.from_json(report.json()) == report


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "cannot be read"),
        ("[" * 100_000, "cannot be read"),
        ("[]", "is an object with calls"),
        ('{"calls": 1, "device_metrics": {}}', "calls is a list"),
        ('{"calls": [1], "device_metrics": {}}', "call 0 is an object"),
        ('{"calls": [{"a": {"miles": 1}}], "device_metrics": {}}', "'a' of call 0 is no metric"),
        ('{"calls": [{"a": {"count": true}}], "device_metrics": {}}', "'a' of call 0 is no metric"),
        ('{"calls": [], "device_metrics": {"cpu0": {"x": 5}}}', "'x' of device cpu0 is no metric"),
    ],
)
def test_bad_json_says_where(text: str, said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        Report.from_json(text)


def test_values_that_are_no_metrics() -> None:
    with pytest.raises(ArgumentError, match="'Count' of call 0 is 3"):
        Report([{"Count": 3}], {}, {})
    with pytest.raises(ArgumentError, match="mixes kinds"):
        Report([{"Name": "f", "x": Count(1)}, {"Name": "f", "x": Duration(1.0)}], {}, {}).table()


# -- the profiler ------------------------------------------------------------------------------------------------


def test_profiler_on_kernels() -> None:
    add = load_artifact(artifact(ADD, ADD_ENTRY))["add"]
    arrays = zeros((16,)), zeros((16,)), zeros((16,))
    with Profiler([cpu()], configuration={"batch": Count(1)}) as profiler:
        profiler.call(add, *arrays)
        profiler.call(add, *arrays, name="again")
        with profiler.measure("sleep", cpu()):
            time.sleep(0.002)
    report = profiler.report()
    assert [row["Name"] for row in report.calls] == ["add", "again", "sleep"]
    assert report.calls[0]["Argument Shapes"] == "float32[16], float32[16], float32[16]"
    slept = report.calls[2]["Duration (us)"]
    assert isinstance(slept, Duration)
    assert slept.microseconds >= 2000
    percents = [row["Percent"] for row in report.calls]
    assert sum(p.percent for p in percents if isinstance(p, Percent)) <= 100
    assert set(report.device_metrics) == {"cpu0"}
    assert Report.from_json(report.json()) == report


def test_a_call_that_fails_is_not_noted() -> None:
    add = load_artifact(artifact(ADD, ADD_ENTRY))["add"]
    with Profiler([cpu()]) as profiler, pytest.raises(ArgumentError):
        profiler.call(add, zeros((3,)))
    assert profiler.report().calls == ()
    with pytest.raises(ArgumentError, match="at least one device"):
        Profiler([])


class Calls:
    """A collector that notes how it was used."""

    def __init__(self) -> None:
        self.open = 0

    def start(self, device: Any) -> int:
        self.open += 1
        return self.open

    def stop(self, started: int) -> dict[str, Any]:
        self.open -= 1
        return {"Nested": Count(started)}


def test_collectors_add_columns() -> None:
    module = load_artifact(artifact(ADD, ADD_ENTRY))
    collector = Calls()
    found = profile_function(module, cpu(), [collector], "add", warmup_iters=2)(*(zeros((16,)) for _ in range(3)))
    assert found.keys() == {"Duration (us)", "Nested"}
    assert found["Nested"] == Count(1)
    assert collector.open == 0


# -- event counters ----------------------------------------------------------------------------------------------


def test_software_events_are_counted_where_they_may_be() -> None:
    try:
        opened = Counters(["Page Faults"])
    except DeviceError as error:
        pytest.skip(error.message)
    with opened as counters:
        counters.start()
        memory = mmap.mmap(-1, 32 << 20)  # fresh pages, whatever the allocator kept
        memory[::4096] = bytes(len(memory) // 4096)
        first = counters.stop()["Page Faults"].count
        counters.start()
        second = counters.stop()["Page Faults"].count
    assert len(memory) == 32 << 20
    assert first > second


def test_events_that_cannot_be_counted_say_why() -> None:
    with pytest.raises(DeviceError, match="no event counter 'Miles'"):
        Counters(["Miles"])
    for event in set(EVENTS) - set(available()):
        with pytest.raises(DeviceError, match=rf"{event} cannot be counted: \w+"):
            HardwareCounters([event])


def test_hardware_events_are_counted_where_there_are_some() -> None:
    try:
        opened = Counters(["Cycles", "Instructions"])
    except DeviceError as error:
        pytest.skip(error.message)
    with opened as counters:
        counts = []
        for turns in (1_000, 1_000_000):
            counters.start()
            sum(range(turns))
            counts.append(counters.stop()["Instructions"].count)
    assert 0 < counts[0] < counts[1]


def test_default_counters_are_those_there_are() -> None:
    module = load_artifact(artifact(ADD, ADD_ENTRY))
    found = profile_function(module, cpu(), func_name="add")(*(zeros((16,)) for _ in range(3)))
    assert found.keys() == {"Duration (us)", *available()}
