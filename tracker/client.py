"""The tracker's client: `connect_tracker(host, port)` gives a `TrackerSession`.

    tracker = connect_tracker("127.0.0.1", 9190)
    remote = tracker.request("cpu memory>=8GiB")     # an RPCSession; the device returns with remote.close()

What a session waits for and holds is renewed by a thread of this process, so a device goes back on its own
soon after the process is gone.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import weakref
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, Literal, TypeVar

import msgspec

from compiler.errors import ArgumentError
from rpc_server.client.connect import opening
from rpc_server.client.dial import Ahead
from rpc_server.client.session import RPCSession
from rpc_server.errors import ConnectError, KeyFileError, ProtocolError, RPCError
from rpc_server.farm_link.registrar import split_address
from rpc_server.machine.user_name import user_name
from rpc_server.wire import tracker_messages as tm
from rpc_server.wire.codec import expect
from rpc_server.wire.curve import keys_for
from rpc_server.wire.keys import KeyRing
from rpc_server.wire.tracker_records import DeviceInfo, LogEvent, QueueInfo
from tracker import farm_summary
from tracker.capability import parse_capability
from tracker.channel import Channel
from tracker.errors import LeaseLostError, TrackerError
from tracker.holdings import Holdings, Lease
from tracker.turn import Turn

logger = logging.getLogger("tracker.client")

CONNECT_TIMEOUT_S = 5.0
ASK_TIMEOUT_S = 10.0
_PREFIX = "not a message of this protocol: "

T = TypeVar("T")


def connect_tracker(
    url: str, port: int, *, user: str = "", timeout_s: float = CONNECT_TIMEOUT_S, keys: KeyRing | None = None
) -> TrackerSession:
    """Connect to the tracker at host `url`.

    `user` is whom its devices count for; default: the login name. With `keys`, the connection is encrypted if they hold
    the tracker's, and `user` is the name this key is authorized under. Raises ConnectError, with the command that
    starts one, when no tracker answers within `timeout_s`.
    """
    return TrackerSession(url, port, user=user, timeout_s=timeout_s, keys=keys)


class TrackerSession:
    """A connection to a tracker, usable from several threads. Closing it gives back everything it holds."""

    def __init__(
        self, host: str, port: int, *, user: str = "", timeout_s: float = CONNECT_TIMEOUT_S, keys: KeyRing | None = None
    ) -> None:
        self.user = user or user_name()
        self._peer = secrets.token_hex(16)
        self._numbers = count(1)
        self._known_abilities: tuple[str, ...] | None = None
        self._holdings = Holdings(self._peer, keys)
        self._channel = Channel(
            host,
            port,
            self._holdings.handle,
            self._holdings.beat,
            tm.ClientBye(self._peer),
            timeout_s,
            keys_for(keys, f"{host}:{port}"),
        )
        self._holdings.post = self._channel.post
        self.address = self._channel.address
        # The channel's thread does not know this object, so it ends when nobody else does.
        weakref.finalize(self, self._channel.end)

    def __repr__(self) -> str:
        return f"<TrackerSession at {self.address}>"

    # Devices to use

    def lease(
        self, expr: str = "*", user: str = "", priority: int = 1, wait_s: float | None = None, *,
        session_timeout_s: float | None = None, exclude: tuple[str, ...] = (),
        on_queued: Callable[[tm.Queued], None] | None = None,
    ) -> Lease:  # fmt: skip
        """Wait for a device that matches a capability expression (see `tracker.capability`) and hold it.

        `wait_s` None waits as long as it takes, 0 not at all. `session_timeout_s` bounds the lease. `exclude`
        lists ids of devices not wanted. `on_queued` is told where the request stands, whenever that changes.

        Raises:
            NoDeviceError: none became free in time; the message says what was in the way.
            CapabilityError: the expression does not parse.
            ArgumentError: another argument is out of range.
            ConnectError: the tracker is gone.
        """
        asked = self._asking(expr, user, priority, wait_s, session_timeout_s)
        return self._lease(msgspec.structs.replace(asked, exclude=exclude), on_queued)

    def _asking(
        self, expr: str, user: str, priority: int, wait_s: float | None, session_timeout_s: float | None
    ) -> tm.RequestDevice:
        return tm.RequestDevice(
            peer=self._peer,
            request=f"{self._peer[:8]}-{next(self._numbers)}",
            user=user or self.user,
            expr=expr,
            priority=priority,
            wait_s=wait_s,
            session_timeout_s=session_timeout_s or None,
        )

    def ask(
        self, expr: str = "*", user: str = "", priority: int = 1, *, session_timeout_s: float | None = None,
        shares: bool = False,
    ) -> Turn:  # fmt: skip
        """Request a lease without waiting for it.
        The request stands in the queue until its lease is waited for or it is given up. With `shares` the lease may
        become wanted (`Lease.is_wanted`), if the tracker shares. Raises CapabilityError and ArgumentError."""
        asked = self._asking(expr, user, priority, None, session_timeout_s)
        return self._ask_for(msgspec.structs.replace(asked, shares=shares and "sharing" in self._abilities()))

    def _abilities(self) -> tuple[str, ...]:
        """Return what the tracker says that it can do; nothing of one that cannot be reached now, or is older."""
        if self._known_abilities is None:
            try:
                self._known_abilities = expect(tm.Abilities, self._ask(tm.Query("abilities"))).names
            except ConnectError:
                return ()
            except RPCError:
                self._known_abilities = ()
        return self._known_abilities

    def _ask_for(self, asked: tm.RequestDevice) -> Turn:
        parse_capability(asked.expr)
        _check(asked)
        return Turn(self._holdings.ask(asked, owner=self), self._holdings, self._channel)

    def _lease(
        self,
        asked: tm.RequestDevice,
        on_queued: Callable[[tm.Queued], None] | None = None,
        early: EarlySession | None = None,
    ) -> Lease:
        turn = self._ask_for(asked)
        try:
            if early is not None:
                early.prepare()
            lease = turn.wait(None, on_queued, None if early is None else early.to)
        except BaseException:
            turn.give_up()
            raise
        assert lease is not None
        return lease

    def request(
        self, key: str, priority: int = 1, session_timeout: float = 0, max_retry: int = 5, *,
        wait_s: float | None = None, user: str = "", **options: Any,
    ) -> RPCSession:  # fmt: skip
        """A session on a device that matches `key`, a key or any capability expression. The device goes back
        when the session is closed, or with this process.

        `session_timeout` (seconds, 0: none) bounds the lease and so the session. A device whose box does not
        open a session is reported to the tracker and another one asked for, `max_retry` times in all. `options`
        go to `rpc_server.client.connect.open_session`. Raises what `lease` raises, and RPCError after the last try.
        """
        tries = max(1, max_retry)
        while True:
            asked = self._asking(key, user, priority, wait_s, session_timeout)
            with contextlib.closing(EarlySession(self._holdings.keys, options)) as early:
                lease = self._lease(msgspec.structs.replace(asked, ahead=True), early=early)
                try:
                    session = lease.open_session(ahead=early.ahead, **options)
                except (RPCError, LeaseLostError) as error:
                    lease.release(fault=f"no session could be opened: {error.message}")
                    logger.warning("%s: %s", lease.device, error.message)
                    tries -= 1
                    if not tries:
                        raise
                    continue
                except BaseException:
                    lease.release()
                    raise
            session.on_close(lease.release, lease.release_later)
            return session

    def request_and_run(
        self, key: str, func: Callable[[RPCSession], T], priority: int = 1, session_timeout: float = 0,
        max_retry: int = 2,
    ) -> T:  # fmt: skip
        """Run `func(session)` on a device that matches `key`, again on another when the session is lost.
        It is tried `max_retry` times in all. Other errors of `func` are raised as they are. Raises TrackerError
        after the last try."""
        last: RPCError | None = None
        for _ in range(max(1, max_retry)):
            try:
                with self.request(key, priority, session_timeout) as session:
                    return func(session)
            except RPCError as error:
                logger.warning("%s: %s", key, error.message)
                last = error
        assert last is not None
        raise TrackerError(f"could not run on {key!r} in {max(1, max_retry)} tries: {last.message}") from last

    # What the farm looks like

    def devices(self) -> list[DeviceInfo]:
        """All devices the tracker knows, by id."""
        found: list[DeviceInfo] = []
        more = True
        while more:
            page = expect(tm.DevicePage, self._ask(tm.Query("devices", after=found[-1].id if found else "")))
            found += page.devices
            more = page.more
        return found

    def queue(self) -> list[QueueInfo]:
        """Free devices and pending requests of each key, and of each expression now waited for."""
        page = expect(tm.QueuePage, self._ask(tm.Query("queue")))
        return list(page.queues)

    def numbers(self) -> tm.FarmNumbers:
        """Return what the tracker has counted since it started: grants, leases, waits."""
        return expect(tm.FarmNumbers, self._ask(tm.Query("numbers")))

    def events(self, since: int = 0, limit: int = 500) -> list[LogEvent]:
        """Up to `limit` events with a seq above `since`, oldest first.
        Only the newest are kept: a first seq above `since` + 1 means that some are gone."""
        found: list[LogEvent] = []
        while len(found) < limit:
            after = found[-1].seq if found else since
            page = expect(
                tm.EventPage, self._ask(tm.Query("events", after=str(after), limit=min(500, limit - len(found))))
            )
            found += page.events
            if not page.more:
                break
        return found

    def summary(self) -> dict[str, Any]:
        """TVM's shape: `server_info` lists boxes, `queue_info[key]` has `free` and `pending` counts."""
        return farm_summary.summary(self.devices(), self.queue())

    def text_summary(self) -> str:
        """The farm as two small tables."""
        return farm_summary.text_summary(self.devices(), self.queue())

    # What an admin does

    def drain(self, target: str, reason: str = "") -> tuple[str, ...]:
        """Lend a device (by id), or all of a box (by name), no more; leases it has go on. Ids of the devices.
        Raises UnknownDeviceError."""
        return self._admin("drain", target, reason)

    def undrain(self, target: str, reason: str = "") -> tuple[str, ...]:
        return self._admin("undrain", target, reason)

    def quarantine(self, target: str, reason: str = "") -> tuple[str, ...]:
        """Take a device or box out of service now: its leases are lost. Raises UnknownDeviceError."""
        return self._admin("quarantine", target, reason)

    def unquarantine(self, target: str, reason: str = "") -> tuple[str, ...]:
        return self._admin("unquarantine", target, reason)

    def check(self, target: str) -> tuple[str, ...]:
        """Have a device's health checked. Its state tells how that went."""
        return self._admin("check", target, "")

    def _admin(
        self, action: Literal["drain", "undrain", "quarantine", "unquarantine", "check"], target: str, reason: str
    ) -> tuple[str, ...]:
        asked = tm.Admin(action, target, reason)
        _check(asked)
        done = expect(tm.AdminDone, self._ask(asked))
        return done.devices

    def _ask(self, question: tm.Query | tm.Admin) -> tm.ToClient:
        return self._channel.ask(question, ASK_TIMEOUT_S)

    # The session itself

    def close(self) -> None:
        """Give back what is held, cancel what is waited for, and disconnect."""
        self._holdings.close(ConnectError(f"the session with the tracker at {self.address} was closed"))
        self._channel.close()

    def __enter__(self) -> TrackerSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _check(message: tm.FromClient) -> None:
    """Raise ArgumentError for what the tracker would not read."""
    try:
        tm.to_tracker.decode_body(tm.to_tracker.encode(message)[1])
    except ProtocolError as error:
        raise ArgumentError(f"{type(message).__name__}: {error.message.removeprefix(_PREFIX)}") from None


class EarlySession:
    """A connection to an offered device's box, and a session requested, before the lease is granted.
    They are begun while the box and the tracker still agree on the lease. `options` are those of the session. If
    `keys` hold the box's key, nothing is begun before the lease is granted."""

    def __init__(self, keys: KeyRing | None = None, options: Mapping[str, Any] | None = None) -> None:
        self.ahead: Ahead | None = None
        self._keys = keys
        self._options = options or {}
        self._offer: tm.Offered | None = None

    def prepare(self) -> None:
        """Prepare for the first offer, while the tracker works on the request."""
        self.ahead = self.ahead or Ahead()

    def to(self, offer: tm.Offered) -> None:
        if offer == self._offer:
            return
        if self._offer is not None:
            self.close()
        self._offer = offer
        with contextlib.suppress(ConnectError, KeyFileError):  # raised again when it is opened
            host, port = split_address(offer.address)
            if keys_for(self._keys, offer.address) is None:
                self.ahead = self.ahead or Ahead()
                self.ahead.go(host, port)
                if offer.token:
                    self.ahead.say(opening(token=offer.token, **self._options))

    def close(self) -> None:
        if self.ahead is not None:
            self.ahead.close()
            self.ahead = None
