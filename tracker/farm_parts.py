"""The parts of a farm: boxes, devices, leases, requests and timers, as data.

Nothing here decides anything.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, StrEnum, auto

from rpc_server.wire.tracker_messages import ToBox, ToClient
from rpc_server.wire.tracker_records import DeviceSpec, LogEvent, Scores, Standing
from tracker.allocate import Waiting


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How patient the tracker is, in seconds.

    A box sends a heartbeat every `heartbeat_s`; after `late_s` of silence nothing new is lent on it, after
    `box_timeout_s` it is gone. A client renews every `renew_s` and loses its leases and places in the queue
    after `grace_s` of silence. `accept_s` is how long a box may take to accept a lease, `revoke_s` how long
    to end one before it is told again. For `settle_s` after a start, leases the tracker does not know are
    presumed to be those of boxes that have not registered again yet. A suspect device is checked again every
    `check_s`, a quarantined one every `recheck_s`; a free one every `idle_check_s`, 0: never. A gone box is listed
    for `forget_s`. See `Allocator` for `overdue_s`.
    """

    heartbeat_s: float = 1.0
    late_s: float = 2.0
    box_timeout_s: float = 3.0
    renew_s: float = 1.0
    grace_s: float = 10.0
    accept_s: float = 3.0
    revoke_s: float = 3.0
    settle_s: float = 15.0
    check_s: float = 15.0
    recheck_s: float = 60.0
    idle_check_s: float = 900.0
    forget_s: float = 3600.0
    overdue_s: float = 600.0


@dataclass(frozen=True, slots=True)
class Send:
    """Command: send a message to a box's agent or a client."""

    peer: str
    message: ToBox | ToClient


@dataclass(frozen=True, slots=True)
class Record:
    """Command: put an event in the log."""

    event: LogEvent


Command = Send | Record


class DeviceState(StrEnum):
    """The state of a device for viewers."""

    READY = "ready"
    LEASED = "leased"
    DRAINING = "draining"
    SUSPECT = "suspect"
    QUARANTINED = "quarantined"
    CLOSED = "closed"
    GONE = "gone"


class LeasePhase(Enum):
    """A lease's life: offered to its box, then active with its client, then ending on its box."""

    OFFERED = auto()
    ACTIVE = auto()
    ENDING = auto()


class TimerKind(Enum):
    BOX = auto()
    FORGET = auto()
    LEASE = auto()
    REQUEST = auto()
    DEVICE = auto()


@dataclass(slots=True, eq=False)
class Box:
    name: str
    peer: str
    address: str
    seen: float
    devices: dict[int, FarmDevice] = field(default_factory=dict)
    late: bool = False
    gone: bool = False
    check_at: float = 0.0
    public: str = ""
    closed: str = ""
    high: int = 0  # the highest token number it has seen: what it says of that counts for itself alone


@dataclass(frozen=True, slots=True)
class Checked:
    """A health check that ended at `at`."""

    at: float
    passed: bool
    text: str
    scores: Scores | None


@dataclass(frozen=True, slots=True)
class OutOfService:
    """A device's standing that its box must not get rid of by registering under another name."""

    standing: Standing
    reason: str
    by_admin: bool


@dataclass(slots=True, eq=False)
class FarmDevice:
    id: str
    box: Box
    spec: DeviceSpec
    since: float
    standing: Standing = "ok"
    reason: str = ""
    by_admin: bool = False
    lease: GrantedLease | None = None
    leases: int = 0
    busy_s: float = 0.0
    check_at: float | None = None
    checked: Checked | None = None
    baseline: Scores | None = None
    failures: int = 0

    @property
    def lendable(self) -> bool:
        return self.lease is None and self.standing == "ok" and not (self.box.late or self.box.gone or self.box.closed)

    @property
    def state(self) -> DeviceState:
        if self.box.gone:
            return DeviceState.GONE
        if self.standing != "ok":
            return DeviceState(self.standing)
        if self.box.late:
            return DeviceState.SUSPECT
        if self.lease is not None:
            return DeviceState.LEASED
        return DeviceState.CLOSED if self.box.closed else DeviceState.READY


@dataclass(slots=True, eq=False)
class GrantedLease:
    """`deadline`: when the box should have accepted, the client renewed, or the box ended it, by `phase`.
    `ends`: its time limit, if it has one. `wanted_for`: the client and user it should be given back for (`sharing`)."""

    id: str
    token: str
    number: int
    device: FarmDevice
    client: str
    user: str
    phase: LeasePhase
    since: float
    deadline: float
    ends: float | None = None
    request: Request | None = None
    reason: str = ""
    check_at: float = float("inf")
    wanted_for: tuple[str, str] | None = None

    @property
    def due(self) -> float:
        return min(self.deadline, self.ends) if self.ends and self.phase is LeasePhase.ACTIVE else self.deadline


@dataclass(slots=True, eq=False)
class Request:
    id: str
    client: str
    waiting: Waiting
    seen: float
    give_up: float | None
    session_timeout_s: float | None
    public: str = ""
    ahead: bool = False
    shares: bool = False
    lease: GrantedLease | None = None
    check_at: float = 0.0

    @property
    def holder(self) -> str:
        """Who answers for it: a key, or without keys a user's name."""
        return self.public or self.waiting.user


@dataclass(slots=True, eq=False)
class ClientHoldings:
    requests: set[str] = field(default_factory=set)
    leases: set[str] = field(default_factory=set)
