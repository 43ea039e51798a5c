"""How well a model is tuned on a device class.

What a build would use today, and what tuning could still save.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from types import MappingProxyType

from compiler.runtime.measure.peaks import Peaks
from compiler.target.target import Target
from tuner.kernels.peaks import bytes_of, class_peaks
from tuner.records.lookup.lookup import MOST_KEYS
from tuner.records.model import BestLookup, Match
from tuner.records.model_store.facts import KernelShare, ModelTask, ModelVersion
from tuner.records.store import RecordStore

REACHED = 0.6
"""The part of a roofline that tuned kernels are taken to reach while none is known."""


@dataclass(frozen=True)
class KernelCoverage:
    """A kernel of a model on a device class.
    `seconds` are what its calls take of a run with today's choice of a build, `untuned` what they took as written;
    None if nobody measured that. `roofline` is the reached part of the device's peak, at most 1. `gain` is the
    seconds of a run that tuning it should save."""

    task: ModelTask
    match: Match
    how: str
    digest: str | None
    seconds: float | None
    untuned: float | None
    roofline: float | None
    gain: float | None

    @property
    def tuned(self) -> bool:
        """Whether it has a config that was measured for this very workload."""
        return self.match in ("exact", "compatible")


@dataclass(frozen=True)
class ModelCoverage:
    """All kernels of a version.
    `rest` is the time of a run outside of them, as the newest profile has it. `peaks` are those of the device class;
    None where nobody measured them."""

    version: ModelVersion
    target: str
    device_class: str
    kernels: tuple[KernelCoverage, ...]
    rest: float | None
    peaks: Peaks | None = None

    @property
    def on_cpu(self) -> bool:
        return Target(self.target).is_cpu

    @property
    def not_known(self) -> str:
        """Why parts of the roofline are not known; "" where they are."""
        if self.peaks is not None or all(kernel.roofline is not None for kernel in self.kernels):
            return ""
        if not self.on_cpu:
            return "the peaks of GPUs are not measured"
        return f"nobody profiled a model on {self.device_class} yet, which measures its peaks"

    @property
    def tuned(self) -> int:
        return sum(kernel.tuned for kernel in self.kernels)

    @property
    def seconds(self) -> float | None:
        """The kernels' part of a run's time; None until each is known."""
        known = [kernel.seconds for kernel in self.kernels if kernel.seconds is not None]
        return sum(known) if known and len(known) == len(self.kernels) else None

    @property
    def tuned_share(self) -> float | None:
        """The share of the known time that is of tuned kernels."""
        whole = sum(kernel.seconds or 0.0 for kernel in self.kernels)
        return sum(k.seconds or 0.0 for k in self.kernels if k.tuned) / whole if whole else None

    @property
    def untimed(self) -> int:
        """How many kernels have no time on the device class."""
        return sum(kernel.seconds is None for kernel in self.kernels)

    @property
    def gain(self) -> float | None:
        """The seconds of a run that tuning should still save; None where it is known of no kernel."""
        known = [kernel.gain for kernel in self.kernels if kernel.gain is not None]
        return sum(known) if known else None


def coverage_of(
    store: RecordStore, version: ModelVersion, target: str, device_class: str, kind: str, peaks: Peaks | None = None
) -> ModelCoverage:
    """How well a version's kernels for a kind of target are tuned on a device class.
    `peaks` are taken for the class's where no profile measured them. Raises TargetError."""
    tasks = store.models.tasks(version.id, kind)
    keys = [task.workload_key for task in tasks]
    found: dict[str, BestLookup] = {}
    for start in range(0, len(keys), MOST_KEYS):
        found |= store.best.look_up_all(keys[start : start + MOST_KEYS], target, device_class)
    time_id, shares = store.models.newest_profile(version.id, device_class)
    rest = None
    if time_id and shares:
        [time] = store.models.times(version.model_id, device_class, version.id, 1, time_id + 1)
        known = {name for task in tasks for name in task.names}
        rest = max(0.0, time.cost - sum(share.seconds for share in shares if share.name in known))
    peaks = class_peaks(store, device_class) or peaks
    nbytes = bytes_of(store, keys) if peaks is not None else {}
    elsewhere = {} if shares else _seconds_elsewhere(store, version, device_class)
    kernels = covered(tasks, found, shares, least_seconds(tasks, peaks, nbytes), elsewhere)
    return ModelCoverage(version, target, device_class, kernels, rest, peaks)


def _seconds_elsewhere(store: RecordStore, version: ModelVersion, device_class: str) -> dict[str, float]:
    """The time of a call of workloads, by the newest profile of the model's other versions on the class."""
    found: dict[str, list[KernelShare]] = defaultdict(list)
    for share in store.models.newest_profile_of(version.model_id, device_class)[1]:
        if share.workload is not None:
            found[share.workload].append(share)
    return {key: sum(s.seconds for s in shares) / sum(s.calls for s in shares) for key, shares in found.items()}


def least_seconds(tasks: Sequence[ModelTask], peaks: Peaks | None, nbytes: Mapping[str, int]) -> dict[str, float]:
    """The least time of a kernel's call by workload: the roofline, of kernels whose work is known."""
    if peaks is None:
        return {}
    work = {task.workload_key: (task.flops or 0.0, nbytes.get(task.workload_key, 0)) for task in tasks}
    return {key: peaks.seconds(*each) for key, each in work.items() if any(each)}


def covered(
    tasks: Sequence[ModelTask],
    found: Mapping[str, BestLookup],
    shares: Sequence[KernelShare],
    least: Mapping[str, float] = MappingProxyType({}),
    elsewhere: Mapping[str, float] = MappingProxyType({}),
) -> tuple[KernelCoverage, ...]:
    """Return the kernels with what is known of each.

    It comes from configs first, then from the profile `shares`, then from the times of a call `elsewhere`, by
    workload. `least` is the least time of a call by workload; without it, parts of rooflines are those of the
    profile. Tuning should save what a kernel takes beyond its time at a typical part of the roofline: the median of
    the model's tuned kernels. If no roofline is known, untuned kernels are expected to gain as much as the tuned
    ones did.
    """
    profiled: dict[str, tuple[float, float | None]] = {}
    for share in shares:
        profiled[share.name] = share.seconds, share.roofline
    first = [
        _known(task, found[key := task.workload_key], profiled, least.get(key), elsewhere.get(key)) for task in tasks
    ]
    reached = [k.roofline for k in first if k.tuned and k.roofline]
    usual = median(reached) if reached else REACHED
    faster = [k.untuned / k.seconds for k in first if k.tuned and k.untuned and k.seconds]
    speedup = max(1.0, median(faster)) if faster else None
    return tuple(_with_gain(kernel, usual, speedup) for kernel in first)


def _known(
    task: ModelTask,
    lookup: BestLookup,
    profiled: Mapping[str, tuple[float, float | None]],
    least: float | None,
    elsewhere: float | None,
) -> KernelCoverage:
    config = lookup.config if lookup.match in ("exact", "compatible") else None
    measured = [profiled[name] for name in task.names if name in profiled]
    seen = sum(seconds for seconds, _ in measured) if len(measured) == len(task.names) and measured else None
    seconds = seen if seen is not None or elsewhere is None else task.calls * elsewhere
    untuned = None
    how = "untuned"
    if config is not None:
        as_written = config.as_written and config.untuned is not None
        each = config.untuned if as_written and config.untuned is not None else config.cost
        seconds = task.calls * each
        untuned = None if config.untuned is None else task.calls * config.untuned
        how = "as written" if as_written else "hit" if lookup.match == "exact" else "near"
    roofline = None
    if seconds and least is not None:
        roofline = min(1.0, task.calls * least / seconds)
    elif seen and seconds and all(share is not None for _, share in measured):
        at_peak = sum(spent * (share or 0.0) for spent, share in measured)
        roofline = min(1.0, at_peak / seconds)
    digest = None if config is None else config.digest
    return KernelCoverage(task, lookup.match, how, digest, seconds, untuned, roofline, None)


def _with_gain(kernel: KernelCoverage, usual: float, speedup: float | None) -> KernelCoverage:
    gain = None
    if kernel.seconds is not None:
        if kernel.roofline is not None:
            gain = max(0.0, kernel.seconds * (1 - kernel.roofline / usual))
        elif kernel.tuned:
            gain = 0.0
        elif speedup is not None:
            gain = kernel.seconds * (1 - 1 / speedup)
    return KernelCoverage(
        kernel.task, kernel.match, kernel.how, kernel.digest, kernel.seconds, kernel.untuned, kernel.roofline, gain
    )
