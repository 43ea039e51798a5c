"""Which leases a holder should give back so that others get their share.

Pure decisions, at each renewal.

A client that asked with `shares` finishes what it runs, gives a wanted device back and queues again. Such a lease is
wanted when a request that could have its device

- has a higher priority;
- or is of a user who holds at least two devices fewer;
- or is of a user who holds one fewer and had less device time, by more than `QUANTUM_S`, since devices are scarce;
- or is of the same user's other client that holds at least two fewer, or one fewer after `QUANTUM_S` of holding.

The third rule shares what does not divide: of 8 devices three users have 3, 3 and 2, in turns. Requests of lower
priority claim nothing. A lease is left alone for `LEAST_S`, so that devices measure more than they change hands.
"""

from __future__ import annotations

from collections.abc import Iterable

from tracker.allocate import Waiting
from tracker.farm import Farm
from tracker.farm_parts import GrantedLease, LeasePhase

QUANTUM_S = 10.0
LEAST_S = 2.0
_LONGEST_S = 2.0  # between two looks: what lies further back was not contended


def wanted(farm: Farm, leases: Iterable[str], now: float) -> tuple[str, ...]:
    """The leases that a client should give back, including those that it was told of before."""
    found = []
    for lease_id in leases:
        lease = farm.leases.get(lease_id)
        if lease is None or lease.phase is not LeasePhase.ACTIVE or lease.request is None or not lease.request.shares:
            continue
        if lease.wanted_for is None and now - lease.since >= LEAST_S:
            _look(farm, lease, now)
        if lease.wanted_for is not None:
            found.append(lease_id)
    return tuple(found)


def ended(farm: Farm, lease: GrantedLease) -> None:
    """Forget what was promised of a lease: its device is free."""
    if lease.wanted_for is not None:
        _promise(farm, lease, lease.wanted_for, -1)
        lease.wanted_for = None


def _promise(farm: Farm, lease: GrantedLease, rival: tuple[str, str], count: int) -> None:
    client, user = rival
    for name, change in ((f"client {lease.client}", -count), (f"user {lease.user}", -count)):
        farm.coming[name] += change
    for name, change in ((f"client {client}", count), (f"user {user}", count)):
        farm.coming[name] += change
    farm.promised[client] += count
    for counter in (farm.coming, farm.promised):
        for name in (f"client {lease.client}", f"user {lease.user}", f"client {client}", f"user {user}", client):
            if not counter.get(name, 1):
                del counter[name]


def _look(farm: Farm, lease: GrantedLease, now: float) -> None:
    device = lease.device.id
    for request in (farm.allocator.next_request(device, now), farm.allocator.next_of_user(device, lease.user)):
        rival = farm.requests[request] if request is not None else None
        if rival is None or rival.client == lease.client:
            continue
        if _is_due(farm, lease, rival.waiting, rival.client, now):
            lease.wanted_for = (rival.client, rival.waiting.user)
            _promise(farm, lease, lease.wanted_for, 1)
            return


def _is_due(farm: Farm, lease: GrantedLease, rival: Waiting, client: str, now: float) -> bool:
    assert lease.request is not None
    own = lease.request.waiting
    known = farm.clients.get(client)
    if known is None or farm.promised[client] >= len(known.requests) - len(known.leases):
        return False  # each of its requests has a device coming
    if rival.priority != own.priority:
        return rival.priority > own.priority
    if rival.user == own.user:
        more = _held(farm, lease.client) - _held(farm, client)
        return more >= 2 or (more == 1 and now - lease.since >= QUANTUM_S)
    more = _held_by_user(farm, own.user) - _held_by_user(farm, rival.user)
    if more != 1:
        return more >= 2
    return _used(farm, own.user, now) - _used(farm, rival.user, now) > QUANTUM_S


def _held(farm: Farm, client: str) -> int:
    """The devices a client will hold once all wanted leases are given back and lent again."""
    known = farm.clients.get(client)
    return (len(known.leases) if known else 0) + farm.coming[f"client {client}"]


def _held_by_user(farm: Farm, user: str) -> int:
    return farm.allocator.held(user) + farm.coming[f"user {user}"]


def _used(farm: Farm, user: str, now: float) -> float:
    """Device seconds of a user since devices became scarce.
    A user who comes later begins with the least that another has."""
    if now - farm.accounted_at >= 1.0:
        elapsed = min(now - farm.accounted_at, _LONGEST_S)
        farm.accounted_at = now
        waiting = {request.user for request in farm.allocator.waiting()}
        users = waiting | {lease.user for lease in farm.leases.values()}
        before = {name: used for name, used in farm.accounts.items() if name in users}
        least = min(before.values(), default=0.0)
        farm.accounts = {name: before.get(name, least) for name in users}
        for name in users:
            farm.accounts[name] += elapsed * farm.allocator.held(name)
    return farm.accounts.get(user, 0.0)
