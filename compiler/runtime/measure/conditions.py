"""Disturbances of a measurement by the machine: load, preemption, migration, frequency, throttling.

`take` reads Linux's counters; `warnings` compares two readings. Counters that a machine lacks are left out.
"""

from __future__ import annotations

import json
import os
import re
import resource
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

from compiler.errors import ArgumentError
from compiler.runtime.core.registry import register_func
from compiler.runtime.measure import energy

CPUS = "/sys/devices/system/cpu"
_TICKS = os.sysconf("SC_CLK_TCK")
_LOAD = 0.05
"""Share of a core, used by others, from which on it is worth saying."""
_FREQUENCY = 0.05
"""Relative change of the clock from which on it is worth saying."""
_CPU_DRIVERS = frozenset({"coretemp", "k10temp", "zenpower", "cpu_thermal", "scpi_sensors"})
_CPU_ZONE = re.compile(r"x86_pkg_temp|cpu", re.IGNORECASE)
_LEAST_ENERGY_S = 0.01
"""Shorter than this, counters of energy tell nothing: they move about once a millisecond."""
_LONG_ENOUGH_S = 0.1
"""Shorter than this, the kernel's counters of CPU time (10 ms steps) tell nothing."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Counters of this machine and process at one moment.
    Seconds are since boot or start; None: unknown."""

    at: float
    busy_s: float | None = None
    """Time the cores of this process's affinity mask were not idle, hypervisor's time excluded."""
    stolen_s: float | None = None
    """Time the hypervisor gave those cores' time to others."""
    own_s: float = 0.0
    preempted: int = 0
    """Involuntary context switches of this process."""
    core: int | None = None
    """The core this thread last ran on."""
    pinned: bool = False
    frequency_khz: float | None = None
    throttled: int | None = None
    """Times a core of the mask was slowed down for heat."""
    ready: int = 0
    """Other tasks of the machine that were running or ready to run."""
    energy_uj: tuple[float, ...] | None = None
    """The processor's energy counters (see `energy`)."""


def take() -> Reading:
    """Read the counters. Takes some 100 us."""
    cores = sorted(os.sched_getaffinity(0))
    usage = resource.getrusage(resource.RUSAGE_SELF)
    busy, stolen = _core_times(cores)
    return Reading(
        at=time.monotonic(), busy_s=busy, stolen_s=stolen, own_s=usage.ru_utime + usage.ru_stime,
        preempted=usage.ru_nivcsw, core=_last_core(), pinned=len(cores) == 1,
        frequency_khz=_mean(_number(f"{CPUS}/cpu{c}/cpufreq/scaling_cur_freq") for c in cores),
        throttled=_sum(_number(f"{CPUS}/cpu{c}/thermal_throttle/core_throttle_count") for c in cores),
        ready=_ready_tasks(), energy_uj=energy.read(),
    )  # fmt: skip


def warnings(before: Reading, after: Reading, threads: int = 1) -> tuple[str, ...]:
    """Return what may have disturbed a measurement between two readings, a sentence each. Pure.

    `threads`: how many threads the measured code ran on.
    """
    elapsed = after.at - before.at
    found: list[str] = []
    if elapsed >= _LONG_ENOUGH_S:
        found += _load(before, after, elapsed)
    elif before.ready > 0 and after.ready > 0:
        found.append(f"{min(before.ready, after.ready)} other tasks were ready to run")
    preempted = after.preempted - before.preempted
    if preempted > 0:
        found.append(f"preempted {preempted} {'time' if preempted == 1 else 'times'}")
    if threads == 1 and not after.pinned and None not in (before.core, after.core) and before.core != after.core:
        found.append(f"moved from core {before.core} to core {after.core}")
    if before.frequency_khz and after.frequency_khz:
        change = after.frequency_khz / before.frequency_khz - 1
        if abs(change) > _FREQUENCY:
            found.append(f"the clock went from {before.frequency_khz / 1e6:.2f} to {after.frequency_khz / 1e6:.2f} GHz")
    if before.throttled is not None and after.throttled is not None and after.throttled > before.throttled:
        found.append(f"cores were slowed down for heat {after.throttled - before.throttled:.0f} times")
    return tuple(found)


def drawn(before: Reading, after: Reading) -> dict[str, float]:
    """Return the processor's mean power (`watts`) and clock (`clock_mhz`) between two readings.
    Unknown values are left out."""
    found: dict[str, float] = {}
    if before.frequency_khz and after.frequency_khz:
        found["clock_mhz"] = (before.frequency_khz + after.frequency_khz) / 2e3
    spent, elapsed = energy.joules(before.energy_uj, after.energy_uj), after.at - before.at
    if spent is not None and elapsed >= _LEAST_ENERGY_S:
        found["watts"] = spent / elapsed
    return found


BEGIN, END = "runtime.measure.begin", "runtime.measure.end"
"""Functions by which a program reads the counters of a box around what it runs there."""


@register_func(BEGIN, override=True)
def begin() -> str:
    """This machine's counters now, as JSON text for `end`."""
    return json.dumps(asdict(take()))


@register_func(END, override=True)
def end(before: str) -> str:
    """Return the energy `drawn` on this machine since `begin`, as JSON text.

    Where it is not known, `why_not` says so. Raises ArgumentError for a text that `begin` did not give.
    """
    try:
        given = json.loads(before)
        counted = given.get("energy_uj")
        since = Reading(**{**given, "energy_uj": None if counted is None else tuple(map(float, counted))})
        found = drawn(since, take())
    except (TypeError, ValueError, AttributeError) as error:
        raise ArgumentError(f"this is no reading of counters: {error}") from None
    return json.dumps({**found, "why_not": "" if "watts" in found else energy.why_not() or "the runs were too short"})


def _load(before: Reading, after: Reading, elapsed: float) -> list[str]:
    found: list[str] = []
    if before.busy_s is not None and after.busy_s is not None:
        others = (after.busy_s - before.busy_s) - (after.own_s - before.own_s)
        if others / elapsed > _LOAD:
            found.append(f"other processes used {others / elapsed:.0%} of a core")
    if before.stolen_s is not None and after.stolen_s is not None:
        stolen = after.stolen_s - before.stolen_s
        if stolen / elapsed > _LOAD:
            found.append(f"the hypervisor took {stolen / elapsed:.0%} of a core")
    return found


def temperature() -> float | None:
    """°C of the hottest sensor of the processor; None where none is told, as in most virtual machines."""
    return _combined((_number(path) for path in _sensors("/sys/class")), lambda known: max(known) / 1000)


# ------------------------------------------------------------------------------------------- reading


@lru_cache(maxsize=1)
def _sensors(root: str) -> tuple[str, ...]:
    """The files of the processor's temperatures, in thousandths.
    They are its driver's, else its thermal zones'."""
    found = [
        path
        for folder in Path(root, "hwmon").glob("hwmon*")
        if _text(folder / "name") in _CPU_DRIVERS
        for path in folder.glob("temp*_input")
    ]
    places = Path(root, "thermal").glob("thermal_zone*")
    zones = [zone / "temp" for zone in places if _CPU_ZONE.search(_text(zone / "type"))]
    return tuple(sorted(map(str, found or zones)))


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8").strip()
    except OSError:
        return ""


def _core_times(cores: list[int]) -> tuple[float | None, float | None]:
    """Busy and stolen seconds of `cores`."""
    wanted = {f"cpu{core}" for core in cores}
    busy = stolen = 0
    seen = False
    try:
        with open("/proc/stat", encoding="utf-8") as file:
            for line in file:
                name, *fields = line.split()
                if not name.startswith("cpu"):
                    break
                if name in wanted:
                    user, nice, system, _idle, _iowait, irq, soft, steal = map(int, fields[:8])
                    busy += user + nice + system + irq + soft
                    stolen += steal
                    seen = True
    except (OSError, ValueError):
        return None, None
    return (busy / _TICKS, stolen / _TICKS) if seen else (None, None)


def _last_core() -> int | None:
    try:
        text = Path("/proc/thread-self/stat").read_text("utf-8", "replace")
        return int(text.rpartition(")")[2].split()[36])
    except (OSError, ValueError, IndexError):
        return None


def _ready_tasks() -> int:
    try:
        running = Path("/proc/loadavg").read_text("utf-8").split()[3].partition("/")[0]
        return max(int(running) - 1, 0)
    except (OSError, ValueError, IndexError):
        return 0


def _number(path: str) -> float | None:
    try:
        return float(Path(path).read_text("utf-8"))
    except (OSError, ValueError):
        return None


def _combined(values: Iterable[float | None], combine: Callable[[list[float]], float]) -> float | None:
    known = [v for v in values if v is not None]
    return combine(known) if known else None


def _mean(values: Iterable[float | None]) -> float | None:
    return _combined(values, lambda known: sum(known) / len(known))


def _sum(values: Iterable[float | None]) -> int | None:
    total = _combined(values, sum)
    return None if total is None else int(total)
