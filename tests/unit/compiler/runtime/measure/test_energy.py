"""Energy by the counters of a recorded powercap tree: two packages with memory, as a two-socket server shows them.

The mean clock is that of a recorded cpufreq tree, of the cores that this process may run on.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from compiler.errors import ArgumentError
from compiler.runtime.core.registry import get_global_func
from compiler.runtime.measure import conditions, energy

TREE = {
    "intel-rapl:0": ("package-0", 262_143_328_850, 1_000_000),
    "intel-rapl:0:0": ("core", 262_143_328_850, 400_000),
    "intel-rapl:0:1": ("dram", 65_712_999_613, 50_000),
    "intel-rapl:1": ("package-1", 262_143_328_850, 262_143_328_000),
    "intel-rapl:1:0": ("dram", 65_712_999_613, 60_000),
    "intel-rapl:2": ("psys", 262_143_328_850, 9_000_000),
    "intel-rapl-mmio:0": ("package-0", 262_143_328_850, 1_000_000),
}


@pytest.fixture
def tree(tmp_path: Path) -> str:
    (tmp_path / "intel-rapl").mkdir()  # the driver itself
    for name, (zone, full, now) in TREE.items():
        folder = tmp_path / name
        folder.mkdir()
        for file, value in (("name", zone), ("max_energy_range_uj", full), ("energy_uj", now)):
            (folder / file).write_text(f"{value}\n")
    return str(tmp_path)


def test_packages_and_their_memory_are_added_up_once(tree: str) -> None:
    assert [meter.path.parent.name for meter in energy.meters(tree)] == [
        "intel-rapl:0", "intel-rapl:0:1", "intel-rapl:1", "intel-rapl:1:0"
    ]  # fmt: skip
    assert energy.why_not(tree) == ""


def test_a_counter_that_is_full_starts_again(tree: str) -> None:
    before = energy.read(tree)
    (Path(tree) / "intel-rapl:0" / "energy_uj").write_text("3500000\n")
    (Path(tree) / "intel-rapl:1" / "energy_uj").write_text("499150\n")  # 850 µJ to its end, and on
    assert energy.joules(before, energy.read(tree), tree) == pytest.approx(2.5 + 0.5)


def test_programs_elsewhere_ask_a_box_what_was_drawn(tree: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read, joules, why_not = energy.read, energy.joules, energy.why_not
    monkeypatch.setattr(energy, "read", lambda *_: read(tree))
    monkeypatch.setattr(energy, "joules", lambda before, after, *_: joules(before, after, tree))
    monkeypatch.setattr(energy, "why_not", lambda *_: why_not(tree))
    before = get_global_func(conditions.BEGIN)()
    just = json.dumps({**json.loads(before), "at": time.monotonic() + 60})  # however slow this machine is
    assert "too short" in json.loads(get_global_func(conditions.END)(just))["why_not"]
    (Path(tree) / "intel-rapl:0" / "energy_uj").write_text("3500000\n")
    earlier = {**json.loads(before), "at": json.loads(before)["at"] - 10.0}
    told = json.loads(conditions.end(json.dumps(earlier)))
    assert told["watts"] == pytest.approx(0.25, rel=0.1)
    assert told["why_not"] == ""
    (Path(tree) / "intel-rapl:0" / "energy_uj").write_text("")
    assert "root only" in json.loads(conditions.end(conditions.begin()))["why_not"]
    for text in ("", "[]", "{}", '{"at": 1, "energy_uj": 5}', '{"at": "x"}'):
        with pytest.raises(ArgumentError, match="no reading"):
            conditions.end(text)


def test_what_cannot_be_read_is_said(tree: str, tmp_path: Path) -> None:
    none = str(tmp_path / "none")
    assert energy.read(none) is None
    assert "no energy counters" in energy.why_not(none)
    (Path(tree) / "intel-rapl:0" / "energy_uj").write_text("")  # as it reads where only root may
    assert energy.read(tree) is None
    assert energy.joules(None, None, tree) is None
    assert "root only" in energy.why_not(tree)


def write_clocks(root: Path, khz: int) -> None:
    """A cpufreq tree whose cores of this process run at so many kHz, and one more core at twice that."""
    cores = sorted(os.sched_getaffinity(0))
    for core in (*cores, cores[-1] + 1):
        folder = root / f"cpu{core}" / "cpufreq"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "scaling_cur_freq").write_text(f"{khz if core in cores else 2 * khz}\n")


def test_the_mean_clock_is_that_of_the_cores_that_may_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conditions, "CPUS", str(tmp_path))
    assert "clock_mhz" not in json.loads(conditions.end(conditions.begin()))  # as in most virtual machines
    write_clocks(tmp_path, 3_000_000)
    before = conditions.begin()
    write_clocks(tmp_path, 3_400_000)
    assert json.loads(conditions.end(before))["clock_mhz"] == 3200.0
    quick = conditions.take()
    assert conditions.drawn(quick, conditions.take())["clock_mhz"] == 3400.0
