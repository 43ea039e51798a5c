"""What a tracker, its boxes and its clients say to each other: three closed unions of messages.

Every message travels in `rpc_server.wire` frames. Messages that answer nothing are NOTEs; `Query` and `Admin`
are REQUESTs, answered by one REPLY or ERROR. `peer` is a random name that a box's agent or a client draws when
it starts: it, not the connection, is who is speaking, so that a broken connection changes nothing. Nobody but
the tracker learns it.

Times are seconds. Each side measures them on its own monotonic clock; only durations are sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import msgspec

from rpc_server.wire import Codec, Limits

Attribute = str | int | float | tuple[str, ...]
Standing = Literal["ok", "draining", "suspect", "quarantined"]

MAX_SLOTS = 64
"""Most devices one box may register."""

LIMITS = Limits(max_body=1 << 20, max_buffer=0, max_buffers=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSpec:
    """One lendable device of a box.

    `fingerprint` names the hardware and toolchain that measured times belong to. `standing` is what the tracker
    last said of the device: the box keeps it, so that a restarted tracker learns it again.
    """

    slot: int
    key: str
    tags: tuple[str, ...] = ()
    attributes: dict[str, Attribute] = msgspec.field(default_factory=dict)
    fingerprint: str = ""
    standing: Standing = "ok"
    reason: str = ""
    by_admin: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldLease:
    """A lease as its box reports it. `token` is `NUMBER-SECRET`; `left_s` is what remains of a time limit."""

    lease: str
    slot: int
    token: str
    user: str
    client: str
    left_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseGrant:
    """What a client gets: the token opens a session at `address` (`host:port`) on that box.

    The client renews every `renew_s`; `grace_s` after the last renewal the device goes back.
    """

    lease: str
    token: str
    device: str
    slot: int
    key: str
    address: str
    fingerprint: str
    attributes: dict[str, Attribute]
    renew_s: float
    grace_s: float
    session_timeout_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceInfo:
    """A device as the tracker sees it now.

    `state` is ready, leased, draining, suspect, quarantined or gone; `reason` says why when it is none of the
    first two. `busy_s` of the `known_s` seconds since it first registered it was lent; `seen_s` seconds ago its
    box was last heard.
    """

    id: str
    box: str
    slot: int
    key: str
    tags: tuple[str, ...]
    address: str
    state: str
    reason: str
    fingerprint: str
    attributes: dict[str, Attribute]
    user: str | None
    lease: str | None
    held_s: float
    leases: int
    busy_s: float
    known_s: float
    seen_s: float

    @property
    def utilisation(self) -> float:
        """Share of the time since it registered that the device was lent, 0 to 1."""
        return min(1.0, self.busy_s / self.known_s) if self.known_s > 0 else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEvent:
    """Something that happened, for dashboards and audits. `seq` counts from 1; `time` is Unix seconds.

    `kind` says what: box_registered, box_gone, state, request, refused, cancelled, grant, active, lost, release
    or end (see `tracker.log.LogKind`). Fields that do not apply are empty.
    """

    seq: int
    time: float
    kind: str
    device: str = ""
    box: str = ""
    lease: str = ""
    request: str = ""
    user: str = ""
    number: int = 0
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueInfo:
    """Devices free and requests pending for one key or expression."""

    key: str
    free: int
    pending: int
    devices: int


class _Struct(msgspec.Struct, frozen=True, kw_only=True, tag=True, omit_defaults=True, forbid_unknown_fields=True):
    pass


# Box to tracker


class BoxHello(_Struct):
    """Registers a box. An empty host in `address` (`:9091`) means: the host you see me come from.

    `high` is the highest token number this box has seen, below which nothing may be granted on it.
    """

    peer: str
    box: str
    address: str
    devices: tuple[DeviceSpec, ...]
    leases: tuple[HeldLease, ...] = ()
    high: int = 0


class BoxHeartbeat(_Struct):
    """Sent every `heartbeat_s` of the welcome; `leases` are the ids held now."""

    peer: str
    leases: tuple[str, ...] = ()


class BoxBye(_Struct):
    """The box is shutting down; its leases are over."""

    peer: str
    reason: str = ""


class LeaseAccepted(_Struct):
    """The box will let the token in."""

    peer: str
    lease: str


class LeaseDeclined(_Struct):
    """The box will not: the slot is unknown or the token's number is an old one."""

    peer: str
    lease: str
    reason: str


class LeaseOver(_Struct):
    """The lease's session, if any, has ended and the device is idle."""

    peer: str
    lease: str
    reason: str = ""


class SuspectDevice(_Struct):
    """The box asks that a device be lent no more until it passes a check."""

    peer: str
    slot: int
    reason: str


class CheckResult(_Struct):
    """How a health check went: asked for with `CheckDevice`, or run by the box on its own."""

    peer: str
    slot: int
    passed: bool
    text: str = ""


# Tracker to box


class BoxWelcome(_Struct):
    """Registered. `tracker` names this run of the tracker."""

    tracker: str
    heartbeat_s: float


class BoxRefused(_Struct):
    """Not registered; the box may try again later."""

    kind: str
    message: str
    hint: str = ""


class RegisterAgain(_Struct):
    """The tracker does not know this peer (it restarted, or had given it up): say hello."""


class GrantLease(_Struct):
    """Let `token` in on `slot`; answered by LeaseAccepted or LeaseDeclined. Sent again if the answer was lost."""

    lease: str
    slot: int
    token: str
    number: int
    user: str
    client: str
    left_s: float | None = None


class RevokeLease(_Struct):
    """End the lease's session and answer LeaseOver, also for an unknown lease."""

    lease: str
    reason: str


class CheckDevice(_Struct):
    """Run the health check on a slot and answer CheckResult."""

    slot: int


class KeepStanding(_Struct):
    """Remember this standing of a slot, and report it in later hellos."""

    slot: int
    standing: Standing
    reason: str = ""
    by_admin: bool = False


# Client to tracker


class RequestDevice(_Struct):
    """Ask for a device. The same `request` sent again is a sign of life, and asks where it stands.

    `wait_s` None waits without end. `session_timeout_s` limits the lease's whole life. `exclude` lists ids of
    devices not wanted (one that just failed).
    """

    peer: str
    request: str
    user: str
    expr: str
    priority: int = 1
    wait_s: float | None = None
    session_timeout_s: float | None = None
    exclude: tuple[str, ...] = ()


class CancelRequest(_Struct):
    peer: str
    request: str


class RenewLeases(_Struct):
    """The client still wants these leases; answered by Renewed, and by LeaseLost for each one that is over."""

    peer: str
    tokens: tuple[tuple[str, str], ...]  # (lease id, token)


class ReleaseLease(_Struct):
    """Give a device back. `fault` says what was wrong with the device, if it was: it is then checked first."""

    peer: str
    lease: str
    token: str
    fault: str = ""


class ClientBye(_Struct):
    """The client is done: its requests are cancelled and its leases released."""

    peer: str


class Query(_Struct):
    """A page of `what`: for devices `after` is the last id seen, for events the last seq, as text."""

    what: Literal["devices", "queue", "events"]
    after: str = ""
    limit: int = 500


class Admin(_Struct):
    """Change the standing of a device, or of every device of a box when `target` is a box's name."""

    action: Literal["drain", "undrain", "quarantine", "unquarantine", "check"]
    target: str
    reason: str = ""


# Tracker to client


class Granted(_Struct):
    request: str
    grant: LeaseGrant


class Queued(_Struct):
    """`position` 1 is next among `rivals`; `devices` match at all; `eta_s` is a guess from recent grants."""

    request: str
    position: int
    rivals: int
    devices: int
    eta_s: float | None = None


class Refused(_Struct):
    """The request will not be served."""

    request: str
    kind: str
    message: str
    hint: str = ""


class LeaseLost(_Struct):
    """The lease is over though the client did not end it, or its token is an old one."""

    lease: str
    reason: str


class LeaseReleased(_Struct):
    """The release arrived."""

    lease: str


class Renewed(_Struct):
    """The tracker is alive. `tracker` names this run of it."""

    tracker: str


class DevicePage(_Struct):
    devices: tuple[DeviceInfo, ...]
    more: bool


class QueuePage(_Struct):
    queues: tuple[QueueInfo, ...]


class EventPage(_Struct):
    """`first` is the oldest seq still kept: older events are gone."""

    events: tuple[LogEvent, ...]
    first: int
    more: bool


class AdminDone(_Struct):
    devices: tuple[str, ...]


FromBox = (
    BoxHello
    | BoxHeartbeat
    | BoxBye
    | LeaseAccepted
    | LeaseDeclined
    | LeaseOver
    | SuspectDevice
    | CheckResult
)
FromClient = RequestDevice | CancelRequest | RenewLeases | ReleaseLease | ClientBye | Query | Admin
ToBox = BoxWelcome | BoxRefused | RegisterAgain | GrantLease | RevokeLease | CheckDevice | KeepStanding
ToClient = (
    Granted
    | Queued
    | Refused
    | LeaseLost
    | LeaseReleased
    | Renewed
    | DevicePage
    | QueuePage
    | EventPage
    | AdminDone
)

to_tracker: Codec[FromBox | FromClient] = Codec(FromBox | FromClient, LIMITS)
to_box: Codec[ToBox] = Codec(ToBox, LIMITS)
to_client: Codec[ToClient] = Codec(ToClient, LIMITS)
