"""The records that a tracker's messages carry: devices, leases, checks, events, queues.

Times are seconds; ages and durations only, since every process measures them on a clock of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from msgspec import Meta

from rpc_server.wire.bounds import Count, Finite, Index, Int64, Label, Path, Period, Prose, Rate, Seconds, UnixTime

Name = Annotated[str, Meta(min_length=1, max_length=200)]
Text = Annotated[str, Meta(max_length=2000)]
Attribute = Text | Int64 | Finite | Annotated[tuple[Text, ...], Meta(max_length=256)]
_Attributes = Annotated[dict[Name, Attribute], Meta(max_length=64)]
Standing = Literal["ok", "draining", "suspect", "quarantined"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSpec:
    """One lendable device of a box.

    `fingerprint` names the hardware and toolchain that measured times belong to. `standing` is what the
    tracker last said of the device: the box keeps it, so that a restarted tracker learns it again.
    """

    slot: Index
    key: Name
    tags: Annotated[tuple[Name, ...], Meta(max_length=64)] = ()
    attributes: _Attributes = field(default_factory=dict)
    fingerprint: Text = ""
    standing: Standing = "ok"
    reason: Text = ""
    by_admin: bool = False


@dataclass(frozen=True, slots=True)
class Scores:
    """The results of a health check's kernels: GFLOP/s of one core, and GB/s."""

    compute: Rate
    memory: Rate


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckInfo:
    """A device's last health check, `age_s` seconds ago. `failures`: how many in a row have failed."""

    passed: bool
    text: Text
    age_s: Seconds
    failures: Count = 0
    scores: Scores | None = None
    baseline: Scores | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldLease:
    """A lease as its box reports it. `token` is `NUMBER-SECRET`; `left_s` is what remains of a time limit."""

    lease: Name
    slot: Index
    token: Name
    user: Name
    client: Name
    left_s: Seconds | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseGrant:
    """A granted lease for a client: the token opens a session at `address` (`host:port`) on that box.

    The client renews every `renew_s`; `grace_s` after the last renewal the device goes back. `box_key` is the key the
    box proves to hold, where keys are used.
    """

    lease: Name
    token: Name
    device: Path
    slot: Index
    key: Name
    address: Text
    fingerprint: Text
    attributes: _Attributes
    renew_s: Period
    grace_s: Period
    session_timeout_s: Seconds | None = None
    box_key: Text = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceInfo:
    """A device as the tracker sees it now.

    `state` is ready, leased, draining, suspect, quarantined, closed or gone; `reason` says why when it is none of the
    first two. It was lent for `busy_s` of the `known_s` seconds since it first registered; its box was last
    heard `seen_s` seconds ago.
    """

    id: Path
    box: Name
    slot: Index
    key: Name
    tags: Annotated[tuple[Name, ...], Meta(max_length=64)]
    address: Text
    state: Label
    reason: Text
    fingerprint: Text
    attributes: _Attributes
    user: Name | None
    lease: Name | None
    held_s: Seconds
    leases: Count
    busy_s: Seconds
    known_s: Seconds
    seen_s: Seconds
    check: CheckInfo | None = None

    @property
    def utilisation(self) -> float:
        """Share of the time since it registered that the device was lent, 0 to 1."""
        return min(1.0, self.busy_s / self.known_s) if self.known_s > 0 else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEvent:
    """Something that happened, for dashboards and audits. `seq` counts from 1; `time` is Unix seconds.

    `kind` is a `tracker.log.LogKind`. Fields that do not apply are empty.
    """

    seq: Count
    time: UnixTime
    kind: Label
    device: Path = ""
    box: Label = ""
    lease: Label = ""
    request: Label = ""
    user: Label = ""
    number: Count = 0
    text: Prose = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueInfo:
    """Devices free and requests pending for one key or expression."""

    key: Name
    free: Count
    pending: Count
    devices: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueNumbers:
    """Requests for one expression: `waiting` now, and `granted` so far.
    The first has waited for `oldest_s`; those granted waited `waited_s` together."""

    expr: Text
    waiting: Count
    oldest_s: Seconds
    granted: Count
    waited_s: Seconds
