"""Records around tuning: device events, tokens, releases and benchmarks. See `model` for the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from compiler.runtime.measure.statistics import Interval
from tuner.goals import Goal
from tuner.records.farm.scopes import EVERYTHING, Scopes
from tuner.records.model import CommandFacts

# ------------------------------------------------------------------------------------ devices


class DeviceEventKind(StrEnum):
    """The kind of a device's event.
    A failed check puts what it measured since the last passed one in doubt; CLEARED takes all doubt back. RENAMED
    and REMOVED are of the box, and its measurements stay."""

    CHECK_PASSED = "check_passed"
    CHECK_FAILED = "check_failed"
    QUARANTINED = "quarantined"
    RETURNED = "returned"
    CLEARED = "cleared"
    RENAMED = "renamed"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceEvent:
    """`since` is from when on what the device measured is in doubt because of it."""

    id: int
    device_id: int
    device: str
    kind: DeviceEventKind
    at: datetime
    since: datetime | None
    message: str
    data: Mapping[str, Any]


# ------------------------------------------------------------------------------------- tokens


class Role(StrEnum):
    """The role of a token; each role may do what the ones before it may."""

    READ = "read"
    TUNE = "tune"
    ADMIN = "admin"

    def allows(self, needed: Role) -> bool:
        order = list(Role)
        return order.index(self) >= order.index(needed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """`used_at` is right to about a minute."""

    id: int
    name: str
    role: Role
    created_by: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    used_at: datetime | None
    scopes: Scopes = EVERYTHING

    def valid(self, now: datetime) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


# ----------------------------------------------------------------------------------- releases


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseEntry:
    """One config of a release: what `BestConfig` said when the release was made.
    `sample_count` samples stand behind `cost` and its 95 % interval `low` to `high`, in seconds."""

    workload_key: str
    workload_name: str
    spec: Mapping[str, Any] | None
    flops: float | None
    target: str
    device_class: str
    toolchain: str
    digest: str
    trace: str
    cost: float
    low: float
    high: float
    sample_count: int
    device: str

    @property
    def key(self) -> tuple[str, str, str, str]:
        """The key of the config; a release has one for each."""
        return self.workload_key, self.target, self.device_class, self.toolchain

    @property
    def goal(self) -> Goal:
        """The goal that a release's configs were measured for."""
        return Goal.TIME

    @property
    def bounds(self) -> Interval:
        """The median and its 95 % interval."""
        return Interval(self.low, self.cost, self.high)


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """`digest` is over the name and all entries; `entry_count` of them. Builds use it once it is approved."""

    id: int
    name: str
    note: str
    digest: str
    entry_count: int
    created_by: str
    created_at: datetime
    approved_by: str
    approved_at: datetime | None

    @property
    def approved(self) -> bool:
        return self.approved_at is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseDiff:
    """How release `new` differs from `old`. `changed` pairs entries of the same key whose trace differs."""

    old: str
    new: str
    added: tuple[ReleaseEntry, ...]
    removed: tuple[ReleaseEntry, ...]
    changed: tuple[tuple[ReleaseEntry, ReleaseEntry], ...]
    same: int


# --------------------------------------------------------------------------------- benchmarks


@dataclass(frozen=True, slots=True, kw_only=True)
class NewBenchRun(CommandFacts):
    """`suite` names it, `spec` is its definition; `devices` the expression that chose devices."""

    suite: str
    spec: Mapping[str, Any]
    devices: str
    started_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchRun(CommandFacts):
    id: int
    suite: str
    state: str
    message: str
    devices: str
    started_at: datetime
    finished_at: datetime | None
    updated_at: datetime
    results: int
    failed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchFacts:
    """The facts in the row of a benchmark's result. A new column is a field here and a migration
    (`tuner.records.facts`).

    `kernel` names the series that the result continues on its device. `samples` are seconds per call, `calibration` is
    what the calibration kernel took beside them.
    """

    kernel: str
    config_digest: str = ""
    samples: tuple[float, ...] = ()
    failure_text: str = ""
    calibration: float | None = None
    noise: tuple[str, ...] = ()
    environment: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewBenchResult(BenchFacts):
    """One kernel on one device: either `samples`, or a `failure` with its text."""

    target_id: int
    device_id: int
    workload_id: int | None = None
    failure: str | None = None
    measured_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchResult(BenchFacts):
    """`cost` is the median of `samples`, `low` to `high` its 95 % interval; all None for a failure."""

    id: int
    run_id: int
    sequence: int
    target: str
    device: str
    device_class: str
    failure: str | None
    cost: float | None
    low: float | None
    high: float | None
    toolchain: str
    measured_at: datetime
