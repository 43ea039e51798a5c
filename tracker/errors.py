"""Errors of the tracker. Those that travel are raised as the same class on the client's side."""

from __future__ import annotations

from compiler.errors import TunefarmError


class TrackerError(TunefarmError, kind="tracker"):
    """Base of what the tracker refuses or loses."""


class NoDeviceError(TrackerError, TimeoutError, kind="no_device"):
    """No matching device became free in time."""


class TrackerBusyError(TrackerError, kind="tracker_busy"):
    """Too many requests wait already."""


class LeaseLostError(TrackerError, kind="lease_lost"):
    """The lease is over though its holder did not end it."""


class UnknownDeviceError(TrackerError, KeyError, kind="unknown_device"):
    """No device or box of that name."""

    def __str__(self) -> str:
        return TunefarmError.__str__(self)


class RegistrationError(TrackerError, kind="registration"):
    """A box the tracker does not take: a bad description, or a name another box has."""
