"""Errors of the tracker. Those that travel are raised as the same class on the client's side."""

from __future__ import annotations

from compiler.errors import TunefarmError


class TrackerError(TunefarmError):
    """Base of what the tracker refuses or loses."""

    kind = "tracker"


class NoDeviceError(TrackerError, TimeoutError):
    """No matching device became free in time."""

    kind = "no_device"


class TrackerBusyError(TrackerError):
    """Too many requests wait already."""

    kind = "tracker_busy"


class LeaseLostError(TrackerError):
    """The lease is over though its holder did not end it."""

    kind = "lease_lost"


class UnknownDeviceError(TrackerError, KeyError):
    """No device or box of that name."""

    kind = "unknown_device"

    def __str__(self) -> str:
        return TunefarmError.__str__(self)


class RegistrationError(TrackerError):
    """A box the tracker does not take: a bad description, or a name another box has."""

    kind = "registration"
