"""Who gets which device: pure matching, no clock of its own and no I/O.

A request competes with the others that could use the same device, in this order:

1. higher `priority` first;
2. then fair share between users: the user who holds fewer devices, then the one who has had less device
   time. Device time is counted as in start-time fair queueing (Goyal 1996): each user has a virtual time that grows by
   the seconds held. A user who comes back from being idle starts at the virtual time of the last one served (or the
   latest of all, once nobody waits). So neither absence nor past use is paid for;
3. then first come.

One grant in `OVERDUE_EVERY` goes to the request that has waited longest, if it has waited longer than
`overdue_s`. No stream of more important or more deserving requests starves another for ever.

Devices with equal `Capabilities` form one class, and requests with equal expressions form another. Which
device classes an expression matches is worked out once, when either appears. After that a grant touches only
the request classes now waiting, their users, and one device class: its cost does not depend on the number
of devices. `Allocator.steps` counts the loop iterations of matching, and a test holds it to that.
"""

from __future__ import annotations

from bisect import insort
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field

from tracker.capability import Capabilities, Predicate

OVERDUE_EVERY = 8
"""One grant in this many may go to an overdue request out of turn."""

_IDLE_CLASSES = 64
"""Request classes kept, though nothing waits in them, so that a repeated expression is not matched anew."""

_MAX_IDLE_USERS = 1024


@dataclass(frozen=True, slots=True)
class Waiting:
    """A request in the queue. `order` is unique and grows with arrival; `since` is on the caller's clock."""

    request: str
    user: str
    predicate: Predicate
    order: int
    since: float
    priority: int = 1
    exclude: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Place:
    """Where a request stands: `position` 1 is next; `rivals`, itself included, want the same devices."""

    position: int
    rivals: int


@dataclass(slots=True, eq=False)
class _User:
    name: str
    held: int = 0
    virtual: float = 0.0
    waiting: int = 0


@dataclass(slots=True, eq=False)
class _DeviceClass:
    caps: Capabilities
    devices: set[str] = field(default_factory=set)
    free: OrderedDict[str, None] = field(default_factory=OrderedDict)
    wanted_by: set[_RequestClass] = field(default_factory=set)


@dataclass(slots=True, eq=False)
class _RequestClass:
    predicate: Predicate
    exclude: frozenset[str]
    devices: int = 0
    matching: set[_DeviceClass] = field(default_factory=set)
    available: OrderedDict[_DeviceClass, None] = field(default_factory=OrderedDict)
    arrivals: OrderedDict[str, Waiting] = field(default_factory=OrderedDict)
    levels: dict[int, dict[str, OrderedDict[str, Waiting]]] = field(default_factory=dict)
    descending: list[int] = field(default_factory=list)

    def admits(self, device: str) -> bool:
        return device not in self.exclude and self.predicate.admits(device)


_Rank = tuple[int, int, float, int]
_RequestKey = tuple[Predicate, frozenset[str]]


class Allocator:
    """The queue and the free devices.

    The caller keeps one rule: it asks `next_request` after every change that frees a device, and
    `next_device` after every `add_request`.
    """

    def __init__(self, overdue_s: float = 600.0) -> None:
        self.steps = 0
        self._overdue_s = overdue_s
        self._grants = 0
        self._virtual = 0.0
        self._sweep_at = 2 * _MAX_IDLE_USERS
        self._users: dict[str, _User] = {}
        self._device_classes: dict[Capabilities, _DeviceClass] = {}
        self._class_of: dict[str, _DeviceClass] = {}
        self._request_classes: dict[_RequestKey, _RequestClass] = {}
        self._idle: OrderedDict[_RequestKey, None] = OrderedDict()
        self._waiting: dict[str, Waiting] = {}

    # Devices

    def add_device(self, device: str, caps: Capabilities) -> None:
        """Make a device known; it is not free yet."""
        self.remove_device(device)
        cls = self._device_classes.get(caps)
        if cls is None:
            cls = self._device_classes[caps] = _DeviceClass(caps)
            for request_class in self._request_classes.values():
                self._join(request_class, cls)
        cls.devices.add(device)
        self._class_of[device] = cls
        for request_class in cls.wanted_by:
            request_class.devices += 1

    def remove_device(self, device: str) -> None:
        """Forget a device; unknown ones are ignored."""
        self.set_busy(device)
        cls = self._class_of.pop(device, None)
        if cls is None:
            return
        cls.devices.discard(device)
        for request_class in cls.wanted_by:
            request_class.devices -= 1
            if not cls.devices:
                request_class.matching.discard(cls)
        if not cls.devices:
            del self._device_classes[cls.caps]

    def set_free(self, device: str) -> None:
        """The device may be lent."""
        cls = self._class_of[device]
        cls.free[device] = None
        if len(cls.free) == 1:
            for request_class in cls.wanted_by:
                self.steps += 1
                request_class.available[cls] = None

    def set_busy(self, device: str) -> None:
        """The device may not be lent."""
        cls = self._class_of.get(device)
        if cls is None or device not in cls.free:
            return
        del cls.free[device]
        if not cls.free:
            for request_class in cls.wanted_by:
                self.steps += 1
                request_class.available.pop(cls, None)

    def is_free(self, device: str) -> bool:
        cls = self._class_of.get(device)
        return cls is not None and device in cls.free

    # Users

    def took(self, user: str) -> None:
        """The user got a device."""
        record = self._user(user)
        record.held += 1
        self._grants += 1
        self._virtual = max(self._virtual, record.virtual)
        if len(self._users) > self._sweep_at:
            self._sweep_users()

    def gave_back(self, user: str, held_s: float) -> None:
        """The user's device came back after `held_s` seconds."""
        record = self._user(user)
        record.held -= 1
        record.virtual += held_s
        if not self._waiting:
            self._virtual = max(self._virtual, record.virtual)
        self._forget_idle_user(record)

    def held(self, user: str) -> int:
        """How many devices a user holds."""
        record = self._users.get(user)
        return 0 if record is None else record.held

    # Requests

    def add_request(self, waiting: Waiting) -> None:
        """Queue a request. The same request id must not be queued already."""
        cls = self._request_class(waiting.predicate, waiting.exclude)
        user = self._user(waiting.user)
        if not user.held and not user.waiting:
            user.virtual = max(user.virtual, self._virtual)
        user.waiting += 1
        self._waiting[waiting.request] = waiting
        level = cls.levels.get(waiting.priority)
        if level is None:
            level = cls.levels[waiting.priority] = {}
            insort(cls.descending, waiting.priority, key=lambda priority: -priority)
        _insert(level.setdefault(waiting.user, OrderedDict()), waiting)
        _insert(cls.arrivals, waiting)

    def remove_request(self, request: str) -> Waiting | None:
        """Take a request out of the queue: granted, given up or cancelled. None if it is not queued."""
        waiting = self._waiting.pop(request, None)
        if waiting is None:
            return None
        key = (waiting.predicate, waiting.exclude)
        cls = self._request_classes[key]
        del cls.arrivals[request]
        level = cls.levels[waiting.priority]
        del level[waiting.user][request]
        if not level[waiting.user]:
            del level[waiting.user]
        if not level:
            del cls.levels[waiting.priority]
            cls.descending.remove(waiting.priority)
        if not cls.arrivals:
            self._retire(key)
        user = self._user(waiting.user)
        user.waiting -= 1
        self._forget_idle_user(user)
        return waiting

    # Matching

    def next_device(self, request: str) -> str | None:
        """The free device for this queued request.
        Matching classes are served in turn; within a class it is the one idle the longest."""
        waiting = self._waiting[request]
        cls = self._request_classes[(waiting.predicate, waiting.exclude)]
        if waiting.predicate.devices is not None:
            for device in sorted(waiting.predicate.devices):
                self.steps += 1
                if self.is_free(device) and cls.admits(device) and self._class_of[device] in cls.matching:
                    return device
            return None
        for device_class in cls.available:
            self.steps += 1
            for device in device_class.free:
                self.steps += 1
                if device not in cls.exclude:
                    cls.available.move_to_end(device_class)
                    return device
        return None

    def next_request(self, device: str, now: float) -> str | None:
        """The queued request this free device should go to, or None if none can use it."""
        device_class = self._class_of[device]
        heads: list[tuple[_Rank, Waiting]] = []
        oldest: Waiting | None = None
        for cls in device_class.wanted_by:
            self.steps += 1
            if not cls.arrivals or not cls.admits(device):
                continue
            heads.append(self._head(cls))
            first = next(iter(cls.arrivals.values()))
            if oldest is None or first.order < oldest.order:
                oldest = first
        if oldest is None:
            return None
        if self._grants % OVERDUE_EVERY == OVERDUE_EVERY - 1 and now - oldest.since > self._overdue_s:
            return oldest.request
        return min(heads, key=lambda head: head[0])[1].request

    def next_of_user(self, device: str, user: str) -> str | None:
        """Return the first queued request of a user, of the highest priority, that could use this device.
        None without one."""
        found: list[tuple[int, int, str]] = []
        for cls in self._class_of[device].wanted_by:
            self.steps += 1
            if cls.arrivals and cls.admits(device):
                for priority in cls.descending:
                    if queue := cls.levels[priority].get(user):
                        first = next(iter(queue.values()))
                        found.append((-priority, first.order, first.request))
                        break
        return min(found)[2] if found else None

    # Questions

    def matching_devices(self, predicate: Predicate) -> int:
        """How many known devices, lent or not, an expression matches."""
        if predicate.devices is not None:
            known = [self._class_of[device] for device in predicate.devices if device in self._class_of]
            return sum(predicate.matches(cls.caps) for cls in known)
        cls = self._request_classes.get((predicate, frozenset()))
        if cls is not None:
            return cls.devices
        return sum(len(c.devices) for c in self._device_classes.values() if predicate.matches(c.caps))

    def places(self, predicate: Predicate, exclude: frozenset[str] = frozenset()) -> dict[str, Place]:
        """Where the requests for this expression stand among all that could use some of the same devices.

        It is an estimate: it plays rounds in which each user gets one device, while real turns also depend on how
        long each is kept. It sorts the rivals, so callers keep the answer for a while.
        """
        cls = self._request_classes.get((predicate, exclude))
        if cls is None:
            return {}
        rivals = [
            waiting
            for other in self._request_classes.values()
            if other is cls or not cls.matching.isdisjoint(other.matching)
            for waiting in other.arrivals.values()
        ]
        turns: dict[tuple[int, str], int] = {}
        ranked: list[tuple[int, int, float, int, str]] = []
        for waiting in sorted(rivals, key=lambda w: w.order):
            user = self._users[waiting.user]
            turn = turns.get((waiting.priority, waiting.user), user.held)
            turns[(waiting.priority, waiting.user)] = turn + 1
            ranked.append((-waiting.priority, turn, user.virtual, waiting.order, waiting.request))
        ranked.sort()
        return {rank[-1]: Place(index, len(ranked)) for index, rank in enumerate(ranked, 1) if rank[-1] in cls.arrivals}

    def waiting(self) -> Iterator[Waiting]:
        """All queued requests."""
        return iter(self._waiting.values())

    def free_devices(self) -> Iterator[str]:
        """All devices that may be lent now."""
        for cls in self._device_classes.values():
            yield from cls.free

    # Inside

    def _head(self, cls: _RequestClass) -> tuple[_Rank, Waiting]:
        priority = cls.descending[0]
        best: tuple[_Rank, Waiting] | None = None
        for name, queue in cls.levels[priority].items():
            self.steps += 1
            user = self._users[name]
            waiting = next(iter(queue.values()))
            rank = (-priority, user.held, user.virtual, waiting.order)
            if best is None or rank < best[0]:
                best = (rank, waiting)
        assert best is not None
        return best

    def _request_class(self, predicate: Predicate, exclude: frozenset[str]) -> _RequestClass:
        key = (predicate, exclude)
        cls = self._request_classes.get(key)
        if cls is None:
            cls = self._request_classes[key] = _RequestClass(predicate, exclude)
            for device_class in self._device_classes.values():
                self._join(cls, device_class)
        self._idle.pop(key, None)
        return cls

    def _join(self, request_class: _RequestClass, device_class: _DeviceClass) -> None:
        if not request_class.predicate.matches(device_class.caps):
            return
        request_class.matching.add(device_class)
        request_class.devices += len(device_class.devices)
        device_class.wanted_by.add(request_class)
        if device_class.free:
            request_class.available[device_class] = None

    def _retire(self, key: _RequestKey) -> None:
        self._idle[key] = None
        if len(self._idle) > _IDLE_CLASSES:
            oldest, _ = self._idle.popitem(last=False)
            cls = self._request_classes.pop(oldest)
            for device_class in cls.matching:
                device_class.wanted_by.discard(cls)

    def _user(self, name: str) -> _User:
        user = self._users.get(name)
        if user is None:
            user = self._users[name] = _User(name, virtual=self._virtual)
        return user

    def _is_forgettable(self, user: _User) -> bool:
        return not user.held and not user.waiting and user.virtual <= self._virtual

    def _sweep_users(self) -> None:
        idle = sorted((u.virtual, u.name) for u in self._users.values() if not u.held and not u.waiting)
        for virtual, name in idle:
            if virtual <= self._virtual or len(self._users) > _MAX_IDLE_USERS:
                del self._users[name]
        self._sweep_at = 2 * max(_MAX_IDLE_USERS, len(self._users))

    def _forget_idle_user(self, user: _User) -> None:
        if self._is_forgettable(user):
            self._users.pop(user.name, None)


def _insert(queue: OrderedDict[str, Waiting], waiting: Waiting) -> None:
    """Put a request in by its order.
    A new one goes last. One whose grant fell through comes back among the first, and only then is the walk from the
    end paid."""
    queue[waiting.request] = waiting
    behind = []
    for other in reversed(queue.values()):
        if other.order > waiting.order:
            behind.append(other.request)
        elif other is not waiting:
            break
    for request in reversed(behind):
        queue.move_to_end(request)
