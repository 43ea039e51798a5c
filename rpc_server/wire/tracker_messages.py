"""Messages between a tracker, its boxes and its clients: three closed unions of messages.

Every message travels in `rpc_server.wire.codec` frames. Messages that expect no answer are NOTEs; `Query` and
`Admin` are REQUESTs, answered by one REPLY or ERROR. `peer` is a random name that a box's agent or a client draws
when it starts. It identifies the speaker, not the connection, so a broken connection changes nothing. Only the
tracker learns it.

Times are seconds. Each side measures them on its own monotonic clock; only durations are sent.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from rpc_server.wire.bounds import Count, Index, Label, Path, Period, Seconds, SeenNumber, TokenNumber
from rpc_server.wire.codec import Codec, Limits
from rpc_server.wire.tracker_records import (
    DeviceInfo,
    DeviceSpec,
    HeldLease,
    LeaseGrant,
    LogEvent,
    Name,
    QueueInfo,
    QueueNumbers,
    Scores,
    Standing,
    Text,
)

MAX_SLOTS = 64
"""Most devices one box may register."""

LIMITS = Limits(max_body=1 << 20, max_buffer=0, max_buffers=0)
TO_TRACKER = Limits(max_body=1 << 19, max_buffer=0, max_buffers=0)


class _Struct(msgspec.Struct, frozen=True, kw_only=True, tag=True, omit_defaults=True, forbid_unknown_fields=True):
    pass


# Box to tracker


class BoxHello(_Struct, frozen=True):
    """Registers a box. An empty host in `address` (`:9091`) means: the host you see me come from.

    `high` is the highest token number this box has seen, below which nothing may be granted on it. `public` is the
    box's key as the tracker saw it on the connection, whatever the box wrote there.
    """

    peer: Name
    box: Name
    address: Text
    devices: Annotated[tuple[DeviceSpec, ...], Meta(max_length=MAX_SLOTS)]
    leases: Annotated[tuple[HeldLease, ...], Meta(max_length=256)] = ()
    high: SeenNumber = 0
    public: Text = ""
    closed: Text = ""


class BoxHeartbeat(_Struct, frozen=True):
    """Sent every `heartbeat_s` of the welcome; `leases` are the ids held now.
    `closed` says why the box is not lent at this hour and when it will be, or is empty."""

    peer: Name
    leases: Annotated[tuple[Name, ...], Meta(max_length=256)] = ()
    closed: Text = ""


class BoxBye(_Struct, frozen=True):
    """The box is shutting down; its leases are over."""

    peer: Name
    reason: Text = ""


class LeaseAccepted(_Struct, frozen=True):
    """The box will let the token in."""

    peer: Name
    lease: Name


class LeaseDeclined(_Struct, frozen=True):
    """The box refuses: the slot is unknown or the token's number is an old one."""

    peer: Name
    lease: Name
    reason: Text


class LeaseOver(_Struct, frozen=True):
    """The lease's session, if any, has ended and the device is idle."""

    peer: Name
    lease: Name
    reason: Text = ""


class SuspectDevice(_Struct, frozen=True):
    """The box asks that a device be lent no more until it passes a check."""

    peer: Name
    slot: Index
    reason: Text


class CheckResult(_Struct, frozen=True):
    """The result of a health check, asked for with `CheckDevice` or run by the box on its own.
    `slow`: all results were right, but far slower than the box's `baseline`, which may pass. `age_s`: an old result,
    for a tracker that may not know it. It only changes what is shown."""

    peer: Name
    slot: Index
    passed: bool
    text: Text = ""
    slow: bool = False
    scores: Scores | None = None
    baseline: Scores | None = None
    age_s: Seconds | None = None


# Tracker to box


class BoxWelcome(_Struct, frozen=True):
    """Registered. `tracker` names this run of the tracker."""

    tracker: Label
    heartbeat_s: Period


class BoxRefused(_Struct, frozen=True):
    """Not registered; the box may try again later."""

    kind: Label
    message: Text
    hint: Text = ""


class RegisterAgain(_Struct, frozen=True):
    """The tracker does not know this peer (it restarted, or had given it up): say hello."""


class GrantLease(_Struct, frozen=True):
    """Let `token` in on `slot`; answered by LeaseAccepted or LeaseDeclined.
    May come twice. `holder` is the key of the only client to let in, where keys are used."""

    lease: Name
    slot: Index
    token: Name
    number: TokenNumber
    user: Name
    client: Name
    left_s: Seconds | None = None
    holder: Text = ""


class RevokeLease(_Struct, frozen=True):
    """End the lease's session and answer LeaseOver, also for an unknown lease."""

    lease: Name
    reason: Text


class CheckDevice(_Struct, frozen=True):
    """Run the health check on a slot and answer CheckResult.
    `baseline` is what the box itself may have forgotten."""

    slot: Index
    baseline: Scores | None = None


class KeepStanding(_Struct, frozen=True):
    """Remember this standing of a slot, and report it in later hellos."""

    slot: Index
    standing: Standing
    reason: Text = ""
    by_admin: bool = False


# Client to tracker


class RequestDevice(_Struct, frozen=True):
    """Ask for a device. The same `request` sent again is a sign of life, and asks where it stands.

    `wait_s` None waits without end. `session_timeout_s` limits the lease's whole life. `exclude` lists ids of
    unwanted devices (such as one that just failed). `public` is the client's key as the tracker saw it on the
    connection, whatever the client wrote there; then `user` is the name that key is authorized under. `ahead` asks
    for Offered. `shares`: between two pieces of work, the client gives a lease back if Renewed says that it is
    wanted. It says so only to a tracker that names "sharing" among its Abilities, because an older one does not know
    the field.
    """

    peer: Name
    request: Name
    user: Name
    expr: Text
    priority: Annotated[int, Meta(ge=-1000, le=1000)] = 1
    wait_s: Seconds | None = None
    session_timeout_s: Seconds | None = None
    exclude: Annotated[tuple[Name, ...], Meta(max_length=16)] = ()
    public: Text = ""
    ahead: bool = False
    shares: bool = False


class CancelRequest(_Struct, frozen=True):
    peer: Name
    request: Name


class RenewLeases(_Struct, frozen=True):
    """The client still wants these leases. Answered by Renewed, and by LeaseLost for each that is over."""

    peer: Name
    tokens: Annotated[tuple[tuple[Name, Name], ...], Meta(max_length=4096)]  # (lease id, token)


class ReleaseLease(_Struct, frozen=True):
    """Give a device back. `fault` says what was wrong with it, if anything: it is then checked first."""

    peer: Name
    lease: Name
    token: Name
    fault: Text = ""


class ClientBye(_Struct, frozen=True):
    """The client is done: its requests are cancelled and its leases released."""

    peer: Name


class Query(_Struct, frozen=True):
    """A page of `what`: for devices `after` is the last id seen, for events the last seq, as text."""

    what: Literal["devices", "queue", "events", "numbers", "abilities"]
    after: Text = ""
    limit: Annotated[int, Meta(ge=1, le=500)] = 500


class Admin(_Struct, frozen=True):
    """Change the standing of a device, or of every device of a box when `target` is a box's name."""

    action: Literal["drain", "undrain", "quarantine", "unquarantine", "check"]
    target: Name
    reason: Text = ""


# Tracker to client


class Granted(_Struct, frozen=True):
    request: Name
    grant: LeaseGrant


class Offered(_Struct, frozen=True):
    """A device at `address` is being lent for the request.
    The client may connect there already and ask for a session with `token`, which the box refuses until it has
    agreed. The tracker does not send it for boxes that need more than that to let a client in."""

    request: Name
    address: Text
    token: Text = ""


class Queued(_Struct, frozen=True):
    """Where a request stands.
    `position` 1 is next among `rivals`; `devices` match at all; `eta_s` is a guess from recent grants. `note` names
    a matching device that is closed at this hour, and when it opens."""

    request: Name
    position: Count
    rivals: Count
    devices: Count
    eta_s: Seconds | None = None
    note: Text = ""


class Refused(_Struct, frozen=True):
    """The request will not be served."""

    request: Name
    kind: Label
    message: Text
    hint: Text = ""


class LeaseLost(_Struct, frozen=True):
    """The lease is over, without the client ending it, or its token is an old one."""

    lease: Name
    reason: Text


class LeaseReleased(_Struct, frozen=True):
    """The release arrived."""

    lease: Name


class Renewed(_Struct, frozen=True):
    """The tracker is alive.
    `tracker` names this run of it. `wanted` are leases that others should have a turn with."""

    tracker: Label
    wanted: Annotated[tuple[Name, ...], Meta(max_length=1 << 10)] = ()


class DevicePage(_Struct, frozen=True):
    devices: Annotated[tuple[DeviceInfo, ...], Meta(max_length=500)]
    more: bool


class QueuePage(_Struct, frozen=True):
    queues: Annotated[tuple[QueueInfo, ...], Meta(max_length=1 << 17)]


class EventPage(_Struct, frozen=True):
    """`first` is the oldest seq still kept: older events are gone."""

    events: Annotated[tuple[LogEvent, ...], Meta(max_length=500)]
    first: Count
    more: bool


class FarmNumbers(_Struct, frozen=True):
    """The tracker's counts since it started.
    `events` counts by `tracker.log.LogKind`; of the expressions asked for, the `queues` of the last hundred are
    kept."""

    uptime_s: Seconds
    leases: Count
    requests: Count
    clients: Count
    events: Annotated[dict[Label, Count], Meta(max_length=64)]
    queues: Annotated[tuple[QueueNumbers, ...], Meta(max_length=1000)]


class Abilities(_Struct, frozen=True):
    """The abilities that earlier trackers lack: "sharing". An earlier one answers with an error."""

    names: Annotated[tuple[Label, ...], Meta(max_length=64)]


class AdminDone(_Struct, frozen=True):
    devices: Annotated[tuple[Path, ...], Meta(max_length=1 << 16)]


FromBox = BoxHello | BoxHeartbeat | BoxBye | LeaseAccepted | LeaseDeclined | LeaseOver | SuspectDevice | CheckResult
FromClient = RequestDevice | CancelRequest | RenewLeases | ReleaseLease | ClientBye | Query | Admin
ToBox = BoxWelcome | BoxRefused | RegisterAgain | GrantLease | RevokeLease | CheckDevice | KeepStanding
ToClient = (
    Granted
    | Offered
    | Queued
    | Refused
    | LeaseLost
    | LeaseReleased
    | Renewed
    | DevicePage
    | QueuePage
    | EventPage
    | AdminDone
    | FarmNumbers
    | Abilities
)

to_tracker: Codec[FromBox | FromClient] = Codec(FromBox | FromClient, TO_TRACKER)
to_box: Codec[ToBox] = Codec(ToBox, LIMITS)
to_client: Codec[ToClient] = Codec(ToClient, LIMITS)
from_tracker: Codec[ToBox | ToClient] = Codec(ToBox | ToClient, LIMITS)
