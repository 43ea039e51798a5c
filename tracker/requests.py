"""Requests: taken in, queued, told where they stand, and refused or cancelled."""

from __future__ import annotations

from collections import Counter
from itertools import islice

from compiler.errors import TunefarmError
from rpc_server.errors import NotPermitted
from rpc_server.wire.tracker_messages import CancelRequest, ClientBye, Queued, Refused, RequestDevice
from tracker import lending
from tracker.allocate import Place, Waiting
from tracker.capability import Capabilities, CapabilityError, parse_capability
from tracker.errors import NoDeviceError, TrackerBusyError, TrackerError
from tracker.farm import Farm
from tracker.farm_parts import LeasePhase, Request, TimerKind
from tracker.log import LogKind

MAX_PER_CLIENT = 1000
MAX_WAITING = 100_000
MAX_PER_HOLDER = 5000
"""Requests of one key, under whatever peer names. Without keys, of one user's name, which anyone may choose."""

_PLACES_KEPT_S = 1.0
"""How long computed queue positions are given out before they are computed again."""

_SHOWN_KEYS = 10
_CLOSED_LOOKED_AT = 32


def asked(farm: Farm, event: RequestDevice, now: float) -> None:
    """A client asks for a device, or again for one it has asked for already."""
    request = farm.requests.get(event.request)
    if request is not None:
        _asked_again(farm, request, event, now)
        return
    if event.request in farm.answered:
        refusal = farm.answered[event.request]
        if refusal is not None:
            farm.emit(event.peer, refusal)
        return
    try:
        request = _take_in(farm, event, now)
    except (CapabilityError, TrackerError) as error:
        _refuse(farm, event.peer, event.request, event.user, error, now)
        return
    if lending.place(farm, request, now):
        return
    if request.give_up is not None and request.give_up <= now:
        _give_up(farm, request, now)
        return
    farm.log_request(LogKind.QUEUED, now, request.id, event.user, str(request.waiting.predicate))
    _tell_place(farm, request, now)
    _arm(farm, request, now)


def _take_in(farm: Farm, event: RequestDevice, now: float) -> Request:
    client = farm.clients.get(event.peer)
    if client is not None and len(client.requests) >= MAX_PER_CLIENT:
        raise TrackerBusyError(f"this client has {MAX_PER_CLIENT} requests already", hint="wait for some of them")
    if len(farm.requests) >= MAX_WAITING:
        raise TrackerBusyError(f"{MAX_WAITING} requests wait already", hint="try again later")
    holder = event.public or event.user
    if farm.waiting_of[holder] >= MAX_PER_HOLDER:
        raise TrackerBusyError(f"{event.user} has {MAX_PER_HOLDER} requests already", hint="wait for some of them")
    farm.order += 1
    waiting = Waiting(
        request=event.request,
        user=event.user,
        predicate=parse_capability(event.expr),
        order=farm.order,
        since=now,
        priority=event.priority,
        exclude=frozenset(event.exclude),
    )
    request = Request(
        id=event.request, client=event.peer, waiting=waiting, seen=now,
        give_up=None if event.wait_s is None else now + event.wait_s, session_timeout_s=event.session_timeout_s or None,
        public=event.public, ahead=event.ahead, shares=event.shares,
    )  # fmt: skip
    farm.add_request(request)
    farm.client(event.peer).requests.add(request.id)
    return request


def _asked_again(farm: Farm, request: Request, event: RequestDevice, now: float) -> None:
    if request.client != event.peer:
        error = TrackerError(f"request id {request.id!r} belongs to another client")
        _refuse(farm, event.peer, event.request, event.user, error, now)
        return
    request.seen = now
    if request.lease is None:
        _tell_place(farm, request, now)
    elif request.lease.phase is LeasePhase.ACTIVE:
        lending.send_grant(farm, request.lease)


def cancel(farm: Farm, event: CancelRequest, now: float) -> None:
    """Withdraw a request. If the client has been lent a device meanwhile, that goes back."""
    request = farm.requests.get(event.request)
    if request is not None and request.client == event.peer:
        farm.remember_answered(request.id, None)
        _cancel(farm, request, "cancelled", now)


def client_bye(farm: Farm, event: ClientBye, now: float) -> None:
    """A client is done: everything it asked for or holds goes back."""
    client = farm.clients.get(event.peer)
    if client is None:
        return
    for lease in [farm.leases[lease] for lease in sorted(client.leases)]:
        if lease.phase is not LeasePhase.ENDING:
            lending.begin_end(farm, lease, "its client left", now)
    for request in [farm.requests[request] for request in sorted(client.requests)]:
        _cancel(farm, request, "its client left", now)


def revoked(farm: Farm, peer: str, reason: str, now: float) -> None:
    """Revoke a client's key: the client loses its leases and its places in the queue."""
    client = farm.clients.get(peer)
    if client is None:
        return
    refusal = NotPermitted(reason, hint="have it authorized at the tracker")
    for lease in [farm.leases[lease] for lease in sorted(client.leases)]:
        lending.take_back(farm, lease, reason, now)
    for request in [farm.requests[request] for request in sorted(client.requests)]:
        if request.lease is None:
            _drop(farm, request)
            _refuse(farm, peer, request.id, request.waiting.user, refusal, now)


def timer(farm: Farm, request: Request, now: float) -> None:
    """A queued request's wait may be over, or its client may be gone."""
    if request.lease is not None:
        return
    if now >= request.seen + farm.timing.grace_s:
        _cancel(farm, request, f"its client was silent for {farm.timing.grace_s:g} s", now)
    elif request.give_up is not None and now >= request.give_up:
        _give_up(farm, request, now)
    else:
        _arm(farm, request, now)


def _arm(farm: Farm, request: Request, now: float) -> None:
    due = request.seen + farm.timing.grace_s
    due = due if request.give_up is None else min(due, request.give_up)
    request.check_at = farm.arm(due, TimerKind.REQUEST, request.id)


def _cancel(farm: Farm, request: Request, reason: str, now: float) -> None:
    lease = request.lease
    if lease is not None:
        if lease.phase is not LeasePhase.ENDING:
            lending.begin_end(farm, lease, reason, now)
        return
    _drop(farm, request)
    farm.log_request(LogKind.CANCELLED, now, request.id, request.waiting.user, reason)


def _drop(farm: Farm, request: Request) -> None:
    farm.allocator.remove_request(request.id)
    farm.drop_request(request)
    farm.drop_from_client(request.client, request=request.id)


def _give_up(farm: Farm, request: Request, now: float) -> None:
    error = _why_none(farm, request, now)
    _drop(farm, request)
    _refuse(farm, request.client, request.id, request.waiting.user, error, now)


def _refuse(farm: Farm, peer: str, request: str, user: str, error: TunefarmError, now: float) -> None:
    refusal = Refused(request, error.kind, error.message[:2000], (error.hint or "")[:2000])
    if request not in farm.requests:
        farm.remember_answered(request, refusal)
    farm.emit(peer, refusal)
    farm.log_request(LogKind.REFUSED, now, request, user, error.message)


def _why_none(farm: Farm, request: Request, now: float) -> NoDeviceError:
    predicate = request.waiting.predicate
    waited = f"after {now - request.waiting.since:.1f} s"
    matching = farm.allocator.matching_devices(predicate)
    if not matching:
        keys = Counter(d.spec.key for d in farm.devices.values() if not d.box.gone)
        known = ", ".join(f"{key} ({count})" for key, count in keys.most_common(_SHOWN_KEYS)) or "none"
        return NoDeviceError(
            f"no registered device matches {str(predicate)!r} {waited}; keys registered: {known}",
            hint="start one with `tunefarm server --tracker HOST:PORT --key KEY`, or see `tunefarm devices`",
        )
    place, note = _place(farm, request, now), _closed_note(farm, request)
    return NoDeviceError(
        f"no device matching {str(predicate)!r} became free {waited}: {matching} match, and the request was "
        f"number {place.position} of {place.rivals} in the queue for them" + (f"; {note}" if note else ""),
        hint="wait longer, ask for less, or see who holds them with `tunefarm devices`",
    )


def _tell_place(farm: Farm, request: Request, now: float) -> None:
    place = _place(farm, request, now)
    matching = farm.allocator.matching_devices(request.waiting.predicate)
    eta = None
    if matching and farm.mean_hold_s is not None:
        eta = min(1e9, farm.mean_hold_s * place.position / matching)
    note = _closed_note(farm, request)
    farm.emit(request.client, Queued(request.id, place.position, place.rivals, matching, eta, note))


def _closed_note(farm: Farm, request: Request) -> str:
    """Return a matching device that is closed at this hour, and when it opens.
    "" if there is none among the first."""
    predicate = request.waiting.predicate
    for box in islice(farm.closed.values(), _CLOSED_LOOKED_AT):
        for device in box.devices.values():
            spec = device.spec
            has = Capabilities.of(spec.key, spec.tags, spec.attributes)
            if predicate.admits(device.id) and predicate.matches(has):
                return f"{device.id} is closed: {box.closed}"[:2000]
    return ""


def _place(farm: Farm, request: Request, now: float) -> Place:
    predicate, exclude = request.waiting.predicate, request.waiting.exclude
    if exclude:
        return farm.allocator.places(predicate, exclude)[request.id]
    computed, places = farm.places.get(predicate, (float("-inf"), {}))
    if now - computed >= _PLACES_KEPT_S:
        if len(farm.places) > 256:
            farm.places.clear()
        places = farm.allocator.places(predicate)
        farm.places[predicate] = (now, places)
    return places.get(request.id) or Place(len(places) + 1, len(places) + 1)
