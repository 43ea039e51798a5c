"""How well a model is tuned on a device class: what a build would take today, and what tuning could still save."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from tuner.records.lookup.lookup import MOST_KEYS
from tuner.records.model import BestLookup, Match
from tuner.records.models.facts import KernelShare, ModelTask, ModelVersion
from tuner.records.store import RecordStore

REACHED = 0.6
"""The part of a roofline that tuned kernels are taken to reach while none is known."""


@dataclass(frozen=True)
class KernelCoverage:
    """A kernel of a model on a device class. `seconds` are what its calls take of a run with what a build would choose
    today, `untuned` what they took as written; None where nobody measured that. `roofline` is the part of the device's
    peak that it reaches, and `gain` the seconds of a run that tuning it should save."""

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
    """All kernels of a version. `rest` is the time of a run outside of them, as the newest profile has it."""

    version: ModelVersion
    target: str
    device_class: str
    kernels: tuple[KernelCoverage, ...]
    rest: float | None

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
    def gain(self) -> float:
        """The seconds of a run that tuning should still save."""
        return sum(kernel.gain or 0.0 for kernel in self.kernels)


def coverage_of(store: RecordStore, version: ModelVersion, target: str, device_class: str, kind: str) -> ModelCoverage:
    """How well a version's kernels for a kind of target are tuned on a device class. Raises TargetError."""
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
    return ModelCoverage(version, target, device_class, covered(tasks, found, shares), rest)


def covered(
    tasks: Sequence[ModelTask], found: Mapping[str, BestLookup], shares: Sequence[KernelShare]
) -> tuple[KernelCoverage, ...]:
    """The kernels with what is known of each: from configs first, then from the profile `shares`.

    What tuning should save is what a kernel takes beyond the time that it would take at the part of the roofline which
    the model's tuned kernels reach (their median). Where no roofline is known, untuned kernels are expected to become
    faster by as much as the tuned ones did.
    """
    profiled: dict[str, tuple[float, float | None]] = {}
    for share in shares:
        profiled[share.name] = share.seconds, share.roofline
    first = [_known(task, found[task.workload_key], profiled) for task in tasks]
    reached = [k.roofline for k in first if k.tuned and k.roofline]
    usual = median(reached) if reached else REACHED
    faster = [k.untuned / k.seconds for k in first if k.tuned and k.untuned and k.seconds]
    speedup = max(1.0, median(faster)) if faster else None
    return tuple(_with_gain(kernel, usual, speedup) for kernel in first)


def _known(task: ModelTask, lookup: BestLookup, profiled: Mapping[str, tuple[float, float | None]]) -> KernelCoverage:
    config = lookup.config if lookup.match in ("exact", "compatible") else None
    measured = [profiled[name] for name in task.names if name in profiled]
    seen = sum(seconds for seconds, _ in measured) if len(measured) == len(task.names) and measured else None
    seconds, untuned = seen, None
    how = "untuned"
    if config is not None:
        as_written = config.as_written and config.untuned is not None
        each = config.untuned if as_written and config.untuned is not None else config.cost
        seconds = task.calls * each
        untuned = None if config.untuned is None else task.calls * config.untuned
        how = "as written" if as_written else "hit" if lookup.match == "exact" else "near"
    roofline = None
    if seen and seconds and all(share is not None for _, share in measured):
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
