"""Boxes: how they register, stay alive, go, and come back, and the health of their devices."""

from __future__ import annotations

import zlib

from rpc_server.errors import NotPermitted
from rpc_server.wire import tracker_messages as tm
from rpc_server.wire.tracker_records import DeviceSpec, HeldLease
from tracker import lending
from tracker.capability import is_word
from tracker.errors import RegistrationError, UnknownDeviceError
from tracker.farm import Farm
from tracker.farm_parts import Box, Checked, FarmDevice, GrantedLease, LeasePhase, TimerKind
from tracker.log import LogKind

IDLE_CHECK = "its regular check is under way"
"""Why a device that is in order is not lent for a moment."""

_BUSY_S = 30.0
"""Pause before looking again whether a device that was lent, or out of reach, can have its regular check."""

FAILURES_ALLOWED = 3
"""A device that fails this many checks in a row for being slow is quarantined."""


def hello(farm: Farm, event: tm.BoxHello, now: float) -> None:
    """Register a box.
    It comes for the first time, after it or the tracker restarted, or after its connection broke."""
    try:
        box = _admit(farm, event, now)
    except RegistrationError as error:
        farm.emit(event.peer, tm.BoxRefused(error.kind, error.message, error.hint or ""))
        return
    box.high = max(box.high, event.high, *(_number(held.token) for held in event.leases), 0)
    is_news = event.peer not in farm.peers
    farm.peers[event.peer] = box
    farm.emit(event.peer, tm.BoxWelcome(farm.run, farm.timing.heartbeat_s))
    if is_news:
        box.check_at = farm.arm(now + farm.timing.late_s, TimerKind.BOX, box.name)
        farm.log_box(LogKind.REGISTERED, now, box, f"{len(event.devices)} device(s) at {event.address}")
    _sync_devices(farm, box, event.devices, is_news, now)
    _sync_leases(farm, box, event.leases, now)
    box.late = False
    farm.set_closed(box, event.closed)
    for device in list(box.devices.values()):
        lending.settle(farm, device, now)


def _admit(farm: Farm, event: tm.BoxHello, now: float) -> Box:
    """The box as it now is, `late` (so that nothing is lent) until its devices and leases are sorted out."""
    _check_hello(event)
    box = farm.boxes.get(event.box)
    if farm.peers.get(event.peer) not in (None, box):
        raise RegistrationError(f"this agent is registered under another name than {event.box!r}")
    if box is None:
        box = farm.boxes[event.box] = Box(event.box, event.peer, event.address, now, late=True, public=event.public)
        return box
    if box.peer != event.peer and not box.gone:
        # Two processes cannot listen at one address: there the old one must be dead. Elsewhere it may live.
        if box.address != event.address and not box.late:
            raise RegistrationError(
                f"the name {event.box!r} belongs to a box at {box.address}",
                hint="give this box another name (`tunefarm server --name`)",
            )
        gone(farm, box, "another process of that name took its place", now)
    box.peer, box.address, box.public, box.seen = event.peer, event.address, event.public, now
    box.late, box.gone = True, False
    return box


def _check_hello(event: tm.BoxHello) -> None:
    words = [("box name", event.box)]
    words += [("key", spec.key) for spec in event.devices]
    words += [("tag", tag) for spec in event.devices for tag in spec.tags]
    for what, word in words:
        if not is_word(word):
            raise RegistrationError(f"{what} {word!r} is no word", hint="use letters, digits and `_.:/@+-` only")
    if not event.devices:
        raise RegistrationError(f"box {event.box!r} has no device to lend")
    if len({spec.slot for spec in event.devices}) != len(event.devices):
        raise RegistrationError(f"box {event.box!r} lists a slot twice")


def _sync_devices(farm: Farm, box: Box, specs: tuple[DeviceSpec, ...], is_news: bool, now: float) -> None:
    slots = {spec.slot for spec in specs}
    for device in [device for slot, device in box.devices.items() if slot not in slots]:
        if device.lease is not None:
            lending.lost_with_box(farm, device.lease, "its box lends the device no more", now)
        farm.drop_device(device)
    for spec in specs:
        known = box.devices.get(spec.slot)
        device = known or farm.add_device(box, spec, now)
        if known is None or is_news:
            plan_idle_check(farm, device, now)
        if known is None:
            device.standing, device.reason, device.by_admin = spec.standing, spec.reason, spec.by_admin
            kept = farm.inherited_standing(device)
            if kept is not None and not device.by_admin:
                device.standing, device.reason, device.by_admin = kept.standing, kept.reason, kept.by_admin
            farm.remember_standing(device)
        elif is_news and device.standing == "suspect":
            farm.set_standing(device, "ok", "its box registered anew", now)
        if known is None or is_news or known.spec != spec:
            device.spec = spec
            farm.describe(device)
        if (spec.standing, spec.by_admin) != (device.standing, device.by_admin):
            keep = tm.KeepStanding(spec.slot, device.standing, device.reason, device.by_admin)
            farm.emit(box.peer, keep)
        if device.standing in ("suspect", "quarantined") and not device.by_admin and is_news:
            lending.check(farm, device, now)


def _sync_leases(farm: Farm, box: Box, reported: tuple[HeldLease, ...], now: float) -> None:
    """Make what the box holds and what the tracker has lent agree."""
    ids = {held.lease for held in reported}
    for device in list(box.devices.values()):
        lease = device.lease
        if lease is None or lease.id in ids:
            continue
        if lease.phase is LeasePhase.OFFERED:
            lending.send_offer(farm, lease, now)
        else:
            lending.lost_with_box(farm, lease, "its box does not hold it any more", now)
    for held in reported:
        lease = farm.leases.get(held.lease)
        if lease is not None and lease.device.box is box:
            if lease.phase is LeasePhase.OFFERED:
                lending.activate(farm, lease, now)
            elif lease.phase is LeasePhase.ENDING:
                farm.emit(box.peer, tm.RevokeLease(lease.id, lease.reason))
            continue
        holder = box.devices.get(held.slot)
        if lease is not None:
            farm.log_box(LogKind.STANDING, now, box, f"it claims lease {held.lease}, which is another box's")
        if holder is None or holder.lease is not None or lease is not None:
            farm.emit(box.peer, tm.RevokeLease(held.lease, "the tracker does not know this lease"))
        else:
            _adopt(farm, holder, held, now)


def _adopt(farm: Farm, device: FarmDevice, held: HeldLease, now: float) -> None:
    """Take in a lease that the tracker does not know.
    It is a former tracker's, or was given up meanwhile."""
    given_up = held.lease in farm.ended or held.lease.startswith(f"{farm.run}-")
    lease = GrantedLease(
        id=held.lease, token=held.token, number=_number(held.token), device=device, client=held.client, user=held.user,
        phase=LeasePhase.ACTIVE, since=now, deadline=now + farm.timing.grace_s,
        ends=None if held.left_s is None else now + held.left_s,
    )  # fmt: skip
    lending.attach(farm, lease, now)
    farm.log_lease(LogKind.RESTORED, now, lease)
    if given_up:
        lending.begin_end(farm, lease, "it was given up while its box was away", now)


def _number(token: str) -> int:
    number = token.partition("-")[0]
    return int(number) if number.isascii() and number.isdecimal() and len(number) < 16 else 0


def heartbeat(farm: Farm, event: tm.BoxHeartbeat, now: float) -> None:
    """Note that a box lives.
    Its leases must agree with what it was lent, because a message may have been lost."""
    box = farm.peers.get(event.peer)
    if box is None:
        farm.emit(event.peer, tm.RegisterAgain())
        return
    box.seen = now
    if box.closed != event.closed:
        farm.set_closed(box, event.closed)
        farm.log_box(LogKind.STANDING, now, box, f"closed: {box.closed}" if box.closed else "ok: it may be lent again")
        for device in box.devices.values():
            lending.settle(farm, device, now)
    if box.late:
        box.late = False
        farm.log_box(LogKind.STANDING, now, box, "ok: its heartbeats are back")
        for device in box.devices.values():
            lending.settle(farm, device, now)
    for device in box.devices.values():
        lease = device.lease
        if lease is not None and lease.phase is not LeasePhase.OFFERED and lease.id not in event.leases:
            lending.lost_with_box(farm, lease, lease.reason or "its box does not hold it any more", now)
    for lease_id in event.leases:
        if lease_id not in farm.leases:
            farm.emit(event.peer, tm.RevokeLease(lease_id, "the tracker does not know this lease"))


def bye(farm: Farm, event: tm.BoxBye, now: float) -> None:
    box = farm.peers.get(event.peer)
    if box is not None:
        gone(farm, box, event.reason or "it shut down", now)


def revoked(farm: Farm, peer: str, reason: str, now: float) -> None:
    """End everything that a box's key was good for.
    The box is told, so that it ends its sessions and registers again."""
    box = farm.peers.get(peer)
    if box is None:
        return
    for device in box.devices.values():
        if device.lease is not None:
            farm.emit(peer, tm.RevokeLease(device.lease.id, reason))
    farm.emit(peer, tm.BoxRefused(NotPermitted.kind, reason, "have it authorized at the tracker"))
    gone(farm, box, reason, now)


def gone(farm: Farm, box: Box, reason: str, now: float) -> None:
    """Remove a box: its leases are over, and requests that were offered it go to others."""
    box.gone, box.late = True, False
    farm.set_closed(box, "")
    del farm.peers[box.peer]
    farm.log_box(LogKind.BOX_GONE, now, box, reason)
    for device in box.devices.values():
        farm.allocator.remove_device(device.id)
    for device in box.devices.values():
        if device.lease is not None:
            lending.lost_with_box(farm, device.lease, f"box {box.name} is gone: {reason}", now)
    box.check_at = farm.arm(now + farm.timing.forget_s, TimerKind.FORGET, box.name)


def timer(farm: Farm, box: Box, now: float) -> None:
    """A box's heartbeat may be overdue."""
    # Compared as they are armed, since `now - seen` may round to just under the patience for ever.
    if now >= box.seen + farm.timing.box_timeout_s:
        gone(farm, box, f"no heartbeat for {farm.timing.box_timeout_s:g} s", now)
        return
    if now >= box.seen + farm.timing.late_s and not box.late:
        box.late = True
        farm.log_box(LogKind.STANDING, now, box, f"suspect: no heartbeat for {farm.timing.late_s:g} s")
        for device in box.devices.values():
            lending.settle(farm, device, now)
    patience = farm.timing.box_timeout_s if box.late else farm.timing.late_s
    box.check_at = farm.arm(box.seen + patience, TimerKind.BOX, box.name)


def forget(farm: Farm, box: Box) -> None:
    """A box that has been gone long is no longer listed."""
    for device in list(box.devices.values()):
        farm.drop_device(device)
    del farm.boxes[box.name]


def suspect_device(farm: Farm, event: tm.SuspectDevice, now: float) -> None:
    """A box doubts one of its devices."""
    device = _device_of(farm, event.peer, event.slot)
    if device is not None:
        lending.suspect(farm, device, event.reason, now)
        lending.settle(farm, device, now)


def checked(farm: Farm, event: tm.CheckResult, now: float) -> None:
    """Note the end of a health check.
    An admin's decision stands, whatever the check says. A wrong result quarantines a device. A slow device is
    checked again, and quarantined after several slow results in a row."""
    device = _device_of(farm, event.peer, event.slot)
    if device is None:
        return
    device.checked = Checked(now - (event.age_s or 0.0), event.passed, event.text, event.scores)
    device.baseline = event.baseline or device.baseline
    if event.age_s is not None:
        return
    device.failures = 0 if event.passed else device.failures + 1
    farm.log_box(LogKind.CHECKED, now, device.box, event.text, device.id)
    if device.by_admin:
        return
    if event.passed:
        farm.set_standing(device, "ok", "it passed a check" if device.standing != "ok" else device.reason, now)
        plan_idle_check(farm, device, now)
    elif event.slow and device.failures < FAILURES_ALLOWED and device.standing != "quarantined":
        farm.set_standing(device, "suspect", f"it failed a check: {event.text}"[:2000], now)
        device.check_at = farm.arm(now + farm.timing.check_s, TimerKind.DEVICE, device.id)
    else:
        farm.set_standing(device, "quarantined", f"it failed a check: {event.text}"[:2000], now)
        device.check_at = farm.arm(now + farm.timing.recheck_s, TimerKind.DEVICE, device.id)
    lending.settle(farm, device, now)


def check_timer(farm: Farm, device: FarmDevice, now: float) -> None:
    """Whether a device is due for a check.
    A device out of service is due, but not before it comes back from a lease; so is one whose last check was long
    ago."""
    if device.standing in ("suspect", "quarantined") and not device.by_admin:
        if device.lease is None:
            lending.check(farm, device, now)
    elif device.lendable:
        lending.suspect(farm, device, IDLE_CHECK, now)
        lending.check(farm, device, now)
        lending.settle(farm, device, now)
    else:
        device.check_at = farm.arm(now + min(_BUSY_S, farm.timing.idle_check_s), TimerKind.DEVICE, device.id)


def plan_idle_check(farm: Farm, device: FarmDevice, now: float) -> None:
    """Have a device that is in order checked when it has not been for long: not all of them at once."""
    interval = farm.timing.idle_check_s
    if not interval:
        device.check_at = None
        return
    share = zlib.crc32(device.id.encode()) / 2**32
    device.check_at = farm.arm(now + interval * (0.75 + 0.25 * share), TimerKind.DEVICE, device.id)


def find(farm: Farm, target: str) -> list[FarmDevice]:
    """The device of that id, or all devices of the box of that name. Raises UnknownDeviceError."""
    device, box = farm.devices.get(target), farm.boxes.get(target)
    if device is not None:
        return [device]
    if box is not None:
        return list(box.devices.values())
    raise UnknownDeviceError(f"no device or box is called {target!r}", hint="`tunefarm devices` lists them")


def admin(farm: Farm, event: tm.Admin, now: float) -> None:
    """Change the standing of a device or of a whole box.
    A drained device ends its lease first; a quarantined one loses it."""
    for device in find(farm, event.target):
        match event.action:
            case "drain":
                if device.standing in ("ok", "suspect"):
                    farm.set_standing(device, "draining", event.reason, now, by_admin=True)
            case "undrain":
                if device.standing == "draining":
                    farm.set_standing(device, "ok", event.reason, now)
            case "quarantine":
                farm.set_standing(device, "quarantined", event.reason, now, by_admin=True)
                if device.lease is not None:
                    reason = f"device {device.id} was quarantined: {event.reason}"
                    lending.take_back(farm, device.lease, reason[:2000], now)
            case "unquarantine":
                if device.standing == "quarantined":
                    farm.set_standing(device, "ok", event.reason, now)
            case "check":
                _check_asked(farm, device, now)
        lending.settle(farm, device, now)


def _check_asked(farm: Farm, device: FarmDevice, now: float) -> None:
    """Lend nothing on a device while it is checked. A lease that it has ends first."""
    if device.box.gone:
        return
    if device.standing == "ok":
        lending.suspect(farm, device, "an admin asked for a check", now)
    if device.lease is None:
        lending.check(farm, device, now)


def _device_of(farm: Farm, peer: str, slot: int) -> FarmDevice | None:
    box = farm.peers.get(peer)
    return box.devices.get(slot) if box is not None else None
