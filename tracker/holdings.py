"""The requests and leases of one client, updated by the tracker's messages and repeated on every beat.

No I/O: `post` hands a message to the line, and messages from the line come in through `handle`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any

from compiler.errors import TunefarmError, error_from_kind
from rpc_server.client.connect import open_session
from rpc_server.client.session import RPCSession
from rpc_server.farm_link.registrar import split_address
from rpc_server.wire import tracker_messages as tm
from rpc_server.wire.keys import KeyRing
from rpc_server.wire.tracker_records import Attribute, LeaseGrant
from tracker.errors import LeaseLostError

logger = logging.getLogger("tracker.client")

_RELEASE_TRIES = 30
_TOKENS_AT_ONCE = 1000


@dataclass(slots=True, eq=False)
class Pending:
    """A request under way, until there is a `lease` or an `error`; `place` and `offered` change before.
    `news` is set when there is something to do for the waiter. The lease keeps `owner` alive."""

    asked: tm.RequestDevice
    owner: object = None
    news: threading.Event = field(default_factory=threading.Event)
    lease: Lease | None = None
    error: TunefarmError | None = None
    place: tm.Queued | None = None
    offered: tm.Offered | None = None

    @property
    def is_over(self) -> bool:
        return self.lease is not None or self.error is not None


class Lease:
    """A device held for this process until `release`, or until `lost` says why it is not any more.

    It is also a context manager. `device` is its id, `host` and `port` where its box answers, `token` what the box
    asks for, `attributes` what it has, `fingerprint` the device class of its times. `is_wanted`: others should have
    a turn; only leases that were asked for with `shares` are.
    """

    def __init__(self, holdings: Holdings, grant: LeaseGrant) -> None:
        self.id = grant.lease
        self.token = grant.token
        self.device = grant.device
        self.slot = grant.slot
        self.key = grant.key
        self.fingerprint = grant.fingerprint
        self.attributes: dict[str, Attribute] = grant.attributes
        self.session_timeout_s = grant.session_timeout_s
        self.box_key = grant.box_key
        self.host, self.port = split_address(grant.address)
        self.lost: str | None = None
        self.is_released = False
        self.is_wanted = False
        self.owner: object = None  # kept alive as long as the lease is
        self._holdings = holdings
        self._on_lost: list[Callable[[str], None]] = []

    def __repr__(self) -> str:
        state = "released" if self.is_released else "lost" if self.lost else "held"
        return f"<Lease {self.id} on {self.device}, {state}>"

    @property
    def is_held(self) -> bool:
        return not self.is_released and self.lost is None

    def check(self) -> None:
        """Raise LeaseLostError unless the lease is held."""
        if not self.is_held:
            why = self.lost or "it was released"
            raise LeaseLostError(f"the lease of {self.device} is over: {why}", hint="request a device again")

    def on_lost(self, callback: Callable[[str], None]) -> None:
        """Call `callback(reason)` once if the lease ends against its holder's will; at once if it has. It runs
        in the thread that talks to the tracker and must not block."""
        if self._holdings.watch(self, callback):
            callback(self.lost or "")

    def open_session(self, **options: Any) -> RPCSession:
        """A session on the leased device. `options` are those of `rpc_server.client.connect.open_session`."""
        self.check()
        return open_session(
            self.host, self.port, token=self.token, keys=self._holdings.keys, server_key=self.box_key, **options
        )

    def release(self, fault: str = "") -> None:
        """Give the device back; its sessions end. `fault` says what was wrong with it: then it is checked
        before it is lent again. Does not wait. Harmless when it is over already."""
        self._holdings.release(self, fault)

    def release_later(self) -> None:
        """Like `release`, within a beat. Takes no lock, so a finalizer may call it."""
        self._holdings.dropped.put(self)

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class Holdings:
    """Hold what a client has and asks for.
    Thread-safe. `post` is set once there is a line; it must neither block nor raise."""

    def __init__(self, peer: str, keys: KeyRing | None = None) -> None:
        self.keys = keys
        self.post: Callable[[tm.FromClient], None] = lambda message: None
        self.dropped: SimpleQueue[Lease] = SimpleQueue()
        self._peer = peer
        self._lock = threading.Lock()
        self._pending: dict[str, Pending] = {}
        self._leases: dict[str, Lease] = {}
        self._releasing: dict[str, tuple[tm.ReleaseLease, int]] = {}

    # For the client's threads

    def ask(self, asked: tm.RequestDevice, owner: object) -> Pending:
        pending = Pending(asked, owner)
        with self._lock:
            self._pending[asked.request] = pending
        self.post(asked)
        return pending

    def give_up(self, pending: Pending) -> None:
        """A device is not wanted any more, though it may have come meanwhile."""
        with self._lock:
            waits = self._pending.pop(pending.asked.request, None) is not None
        if waits:
            self.post(tm.CancelRequest(self._peer, pending.asked.request))
        elif pending.lease is not None:
            pending.lease.release()

    def release(self, lease: Lease, fault: str = "") -> None:
        with self._lock:
            if self._leases.pop(lease.id, None) is None:
                return
            lease.is_released = True
            release = tm.ReleaseLease(self._peer, lease.id, lease.token, fault[:2000])
            self._releasing[lease.id] = (release, _RELEASE_TRIES)
        self.post(release)

    def watch(self, lease: Lease, callback: Callable[[str], None]) -> bool:
        """Have `callback` called when the lease is lost. True if it is lost already: then it is not."""
        with self._lock:
            if lease.lost is None:
                lease._on_lost.append(callback)
            return lease.lost is not None

    def close(self, error: TunefarmError) -> None:
        """Nothing is held or waited for any more; who waits gets `error`."""
        with self._lock:
            leases, self._leases = self._leases, {}
            pending, self._pending = self._pending, {}
        for lease in leases.values():
            lease.is_released = True
        for waiting in pending.values():
            waiting.error = error
            waiting.news.set()

    # For the line's thread

    def beat(self) -> list[tm.FromClient]:
        """Return the messages to repeat on every beat.
        They are about leases held, requests waiting, and returns not confirmed yet."""
        while True:
            try:
                self.release(self.dropped.get_nowait())
            except Empty:
                break
        with self._lock:
            tokens = [(lease.id, lease.token) for lease in self._leases.values()]
            said: list[tm.FromClient] = [
                tm.RenewLeases(self._peer, tuple(tokens[start : start + _TOKENS_AT_ONCE]))
                for start in range(0, len(tokens), _TOKENS_AT_ONCE)
            ]
            said += [pending.asked for pending in self._pending.values()]
            said += [release for release, _ in self._releasing.values()]
            self._releasing = {
                lease: (release, tries - 1) for lease, (release, tries) in self._releasing.items() if tries > 1
            }
        return said

    def handle(self, message: tm.ToClient) -> None:
        """Take in what the tracker said."""
        match message:
            case tm.Granted(request, grant):
                self._granted(request, grant)
            case tm.Queued(request):
                if (pending := self._waiting_for(request)) is not None:
                    pending.place = message
            case tm.Offered(request):
                if (pending := self._waiting_for(request)) is not None:
                    pending.offered = message
                    pending.news.set()
            case tm.Refused(request, kind, text, hint):
                with self._lock:
                    pending = self._pending.pop(request, None)
                if pending is not None:
                    pending.error = error_from_kind(kind, text, hint=hint or None)
                    pending.news.set()
            case tm.LeaseLost(lease_id, reason):
                self._lost(lease_id, reason)
            case tm.Renewed(_, back):
                with self._lock:
                    for lease_id in back:
                        if lease_id in self._leases:
                            self._leases[lease_id].is_wanted = True
            case tm.LeaseReleased(lease_id):
                with self._lock:
                    self._releasing.pop(lease_id, None)
            case _:
                pass

    def _waiting_for(self, request: str) -> Pending | None:
        with self._lock:
            return self._pending.get(request)

    def _granted(self, request: str, grant: LeaseGrant) -> None:
        with self._lock:
            pending = self._pending.pop(request, None)
            if pending is not None:
                lease = Lease(self, grant)
                lease.owner = pending.owner
                self._leases[lease.id] = pending.lease = lease
            is_known = grant.lease in self._leases
        if pending is not None:
            pending.news.set()
        elif not is_known:
            self.post(tm.ReleaseLease(self._peer, grant.lease, grant.token))

    def _lost(self, lease_id: str, reason: str) -> None:
        with self._lock:
            self._releasing.pop(lease_id, None)
            lease = self._leases.pop(lease_id, None)
            if lease is None:
                return
            lease.lost = reason
            callbacks, lease._on_lost = lease._on_lost, []
        logger.warning("the lease of %s is lost: %s", lease.device, reason)
        for callback in callbacks:
            callback(reason)
