"""Leases: from the offer to a box, through the client's use, to the box's word that it is over.

A device is offered to its box first, and the client is told once the box has accepted. So a client never arrives
before its token. A lease also ends in two steps: the box is told to end it, and the device is lent again only when
the box confirms (or is gone). Each lease has a number greater than any before it on that box, and a secret. Together
they are its token. A box or a tracker that sees an older token refuses it.
"""

from __future__ import annotations

from rpc_server.relay.passes import granted_address, is_relayed
from rpc_server.wire import tracker_messages as tm
from rpc_server.wire.tracker_records import LeaseGrant
from tracker import sharing
from tracker.farm import Farm
from tracker.farm_parts import FarmDevice, GrantedLease, LeasePhase, Request, TimerKind
from tracker.log import LogKind

_RETRY_CHECK_S = 1.0
"""Pause before the check of a device that did not take a lease, so that a sick box cannot spin the queue."""


def place(farm: Farm, request: Request, now: float) -> bool:
    """Queue a request, and lend to it at once if a device is free. Says whether it was."""
    farm.allocator.add_request(request.waiting)
    device = farm.allocator.next_device(request.id)
    if device is None:
        return False
    _offer(farm, request, farm.devices[device], now)
    return True


def settle(farm: Farm, device: FarmDevice, now: float) -> None:
    """Follow a change to a device: make it free or not, and lend a free one.
    Every change must be followed by this."""
    if not device.lendable:
        farm.allocator.set_busy(device.id)
        return
    farm.allocator.set_free(device.id)
    request = farm.allocator.next_request(device.id, now)
    if request is not None:
        _offer(farm, farm.requests[request], device, now)


def _offer(farm: Farm, request: Request, device: FarmDevice, now: float) -> None:
    farm.allocator.remove_request(request.id)
    farm.allocator.set_busy(device.id)
    farm.number += 1
    number = device.box.high = max(farm.number, device.box.high + 1)
    lease = GrantedLease(
        id=f"{farm.run}-{farm.number}", token=f"{number}-{farm.secret()}", number=number, device=device,
        client=request.client, user=request.waiting.user, phase=LeasePhase.OFFERED, since=now,
        deadline=now + farm.timing.accept_s,
        ends=None if request.session_timeout_s is None else now + request.session_timeout_s, request=request,
    )  # fmt: skip
    request.lease = lease
    attach(farm, lease, now)
    farm.log_lease(LogKind.GRANTED, now, lease)
    farm.count_grant(str(request.waiting.predicate), now - request.waiting.since)
    send_offer(farm, lease, now)
    box = device.box
    if request.ahead and not box.public and not is_relayed(box.address):
        farm.emit(request.client, tm.Offered(request.id, box.address, lease.token))


def attach(farm: Farm, lease: GrantedLease, now: float) -> None:
    """Give a device to a lease."""
    assert lease.device.lease is None
    lease.device.lease = lease
    lease.device.leases += 1
    farm.leases[lease.id] = lease
    farm.client(lease.client).leases.add(lease.id)
    farm.allocator.set_busy(lease.device.id)
    farm.allocator.took(lease.user)
    _arm(farm, lease)


def _arm(farm: Farm, lease: GrantedLease) -> None:
    """See that `timer` runs no later than the lease is due. A renewal moves the deadline without this."""
    if lease.due < lease.check_at:
        lease.check_at = farm.arm(lease.due, TimerKind.LEASE, lease.id)


def send_offer(farm: Farm, lease: GrantedLease, now: float) -> None:
    """Tell the box of a lease, and again if the first message may be lost."""
    farm.emit(
        lease.device.box.peer,
        tm.GrantLease(
            lease=lease.id,
            slot=lease.device.spec.slot,
            token=lease.token,
            number=lease.number,
            user=lease.user,
            client=lease.client,
            left_s=None if lease.ends is None else max(0.0, lease.ends - now),
            holder="" if lease.request is None else lease.request.public,
        ),
    )


def accepted(farm: Farm, event: tm.LeaseAccepted, now: float) -> None:
    """The box lets the token in: the client may come."""
    lease = _lease_of_box(farm, event.peer, event.lease)
    if lease is None:
        farm.emit(event.peer, tm.RevokeLease(event.lease, "the tracker has given this lease up"))
    elif lease.phase is LeasePhase.OFFERED:
        activate(farm, lease, now)


def activate(farm: Farm, lease: GrantedLease, now: float) -> None:
    lease.phase = LeasePhase.ACTIVE
    lease.deadline = now + farm.timing.grace_s
    _arm(farm, lease)
    farm.log_lease(LogKind.ACTIVE, now, lease)
    send_grant(farm, lease)


def send_grant(farm: Farm, lease: GrantedLease) -> None:
    """Tell the client of its lease; again, if it asks."""
    assert lease.request is not None
    device = lease.device
    grant = LeaseGrant(
        lease=lease.id, token=lease.token, device=device.id, slot=device.spec.slot, key=device.spec.key,
        address=granted_address(device.box.address, lease.token), fingerprint=device.spec.fingerprint,
        attributes=device.spec.attributes, renew_s=farm.timing.renew_s, grace_s=farm.timing.grace_s,
        session_timeout_s=lease.request.session_timeout_s, box_key=device.box.public,
    )  # fmt: skip
    farm.emit(lease.client, tm.Granted(lease.request.id, grant))


def declined(farm: Farm, event: tm.LeaseDeclined, now: float) -> None:
    """The box refuses the token: the request goes back to its place and the device is checked."""
    lease = _lease_of_box(farm, event.peer, event.lease)
    if lease is None:
        return
    if lease.phase is LeasePhase.OFFERED:
        suspect(farm, lease.device, f"its box declined a lease: {event.reason}", now)
        end(farm, lease, f"declined by the box: {event.reason}", now, requeue=True)
    else:
        _lose(farm, lease, f"the box ended it: {event.reason}")
        end(farm, lease, event.reason, now)


def over(farm: Farm, event: tm.LeaseOver, now: float) -> None:
    """The box says the device is idle."""
    lease = _lease_of_box(farm, event.peer, event.lease)
    if lease is None:
        return
    reason = lease.reason or event.reason or "the box ended it"
    if lease.phase is LeasePhase.ACTIVE:
        _lose(farm, lease, reason)
    end(farm, lease, reason, now, requeue=lease.phase is LeasePhase.OFFERED)


def renew(farm: Farm, event: tm.RenewLeases, now: float) -> None:
    """A client still wants its leases."""
    for lease_id, token in event.tokens:
        lease = farm.leases.get(lease_id)
        if lease is None:
            # Just after a restart it may be a lease of a box that has yet to register again.
            if now >= farm.settling_until or lease_id in farm.ended or lease_id.startswith(f"{farm.run}-"):
                farm.emit(event.peer, tm.LeaseLost(lease_id, "it has ended or expired"))
        elif lease.token != token:
            farm.log_lease(LogKind.STALE_TOKEN, now, lease, "a renewal with a token that is not its own")
            farm.emit(event.peer, tm.LeaseLost(lease_id, "the token is not this lease's"))
        elif lease.phase is LeasePhase.ENDING:
            farm.emit(event.peer, tm.LeaseLost(lease_id, lease.reason))
        elif lease.phase is LeasePhase.ACTIVE:
            lease.deadline = now + farm.timing.grace_s
            if lease.client != event.peer:
                farm.drop_from_client(lease.client, lease=lease.id)
                lease.client = event.peer
                farm.client(event.peer).leases.add(lease.id)
    back = sharing.wanted(farm, (lease_id for lease_id, _ in event.tokens), now)
    farm.emit(event.peer, tm.Renewed(farm.run, back))


def release(farm: Farm, event: tm.ReleaseLease, now: float) -> None:
    """A client gives its device back. A second time, or with an old token, changes nothing."""
    lease = farm.leases.get(event.lease)
    if lease is not None and lease.token != event.token:
        farm.log_lease(LogKind.STALE_TOKEN, now, lease, "a release with a token that is not its own")
        farm.emit(event.peer, tm.LeaseLost(event.lease, "the token is not this lease's"))
        return
    farm.emit(event.peer, tm.LeaseReleased(event.lease))
    if lease is None or lease.phase is LeasePhase.ENDING:
        return
    if event.fault:
        suspect(farm, lease.device, f"{lease.user} reports: {event.fault}", now)
    begin_end(farm, lease, "released", now)


def begin_end(farm: Farm, lease: GrantedLease, reason: str, now: float) -> None:
    """Have the box end a lease. The device is lent again when it has."""
    lease.phase = LeasePhase.ENDING
    lease.reason = reason
    lease.deadline = now + farm.timing.revoke_s
    farm.log_lease(LogKind.ENDING, now, lease, reason)
    farm.emit(lease.device.box.peer, tm.RevokeLease(lease.id, reason))
    _arm(farm, lease)


def take_back(farm: Farm, lease: GrantedLease, reason: str, now: float) -> None:
    """End a lease against its client's will, and tell the client."""
    if lease.phase is LeasePhase.ACTIVE:
        _lose(farm, lease, reason)
    if lease.phase is not LeasePhase.ENDING:
        begin_end(farm, lease, reason, now)


def lost_with_box(farm: Farm, lease: GrantedLease, reason: str, now: float) -> None:
    """End a lease at once, because its box is gone or does not hold it any more."""
    if lease.phase is LeasePhase.ACTIVE:
        _lose(farm, lease, reason)
    end(farm, lease, reason, now, requeue=lease.phase is LeasePhase.OFFERED)


def end(farm: Farm, lease: GrantedLease, reason: str, now: float, requeue: bool = False) -> None:
    """The device is idle. With `requeue` the request takes its old place in the queue again."""
    device, request = lease.device, lease.request
    held = now - lease.since
    del farm.leases[lease.id]
    sharing.ended(farm, lease)
    farm.remember_ended(lease.id)
    farm.drop_from_client(lease.client, lease=lease.id)
    farm.allocator.gave_back(lease.user, held)
    farm.mean_hold_s = held if farm.mean_hold_s is None else 0.9 * farm.mean_hold_s + 0.1 * held
    device.lease = None
    device.busy_s += held
    farm.log_lease(LogKind.ENDED, now, lease, reason)
    if device.standing == "suspect":
        device.check_at = farm.arm(now + _RETRY_CHECK_S, TimerKind.DEVICE, device.id)
    settle(farm, device, now)
    if request is None:
        return
    request.lease = None
    if requeue:
        request.check_at = farm.arm(now + farm.timing.renew_s, TimerKind.REQUEST, request.id)
        place(farm, request, now)
    else:
        farm.drop_request(request)
        farm.drop_from_client(request.client, request=request.id)


def timer(farm: Farm, lease: GrantedLease, now: float) -> None:
    """A lease's deadline may have come; it may also have moved since the timer was set."""
    lease.check_at = float("inf")
    if now < lease.due:
        _arm(farm, lease)
        return
    match lease.phase:
        case LeasePhase.OFFERED:
            waited = f"{farm.timing.accept_s:g} s"
            farm.emit(lease.device.box.peer, tm.RevokeLease(lease.id, "you did not accept it in time"))
            suspect(farm, lease.device, f"its box did not answer an offered lease for {waited}", now)
            end(farm, lease, "the box did not accept it", now, requeue=True)
        case LeasePhase.ACTIVE:
            silent = f"its client was silent for {farm.timing.grace_s:g} s"
            take_back(farm, lease, silent if now >= lease.deadline else "its time limit is reached", now)
        case LeasePhase.ENDING:
            farm.emit(lease.device.box.peer, tm.RevokeLease(lease.id, lease.reason))
            if lease.device.standing == "ok":
                suspect(farm, lease.device, "its last lease does not end", now)
                settle(farm, lease.device, now)
            lease.deadline = now + farm.timing.revoke_s
            _arm(farm, lease)


def suspect(farm: Farm, device: FarmDevice, reason: str, now: float) -> None:
    """Lend a device no more until it passes a check. `settle` or `end` must follow."""
    if device.standing not in ("ok", "suspect"):
        return
    farm.set_standing(device, "suspect", reason, now)
    device.check_at = farm.arm(now + _RETRY_CHECK_S, TimerKind.DEVICE, device.id)


def check(farm: Farm, device: FarmDevice, now: float) -> None:
    """Have the box check a device that is out of service, and again if it does not answer."""
    farm.emit(device.box.peer, tm.CheckDevice(device.spec.slot, device.baseline))
    again = farm.timing.check_s if device.standing == "suspect" else farm.timing.recheck_s
    device.check_at = farm.arm(now + again, TimerKind.DEVICE, device.id)


def _lose(farm: Farm, lease: GrantedLease, reason: str) -> None:
    farm.emit(lease.client, tm.LeaseLost(lease.id, reason))


def _lease_of_box(farm: Farm, peer: str, lease_id: str) -> GrantedLease | None:
    lease = farm.leases.get(lease_id)
    return lease if lease is not None and lease.device.box.peer == peer else None
