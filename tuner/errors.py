"""Errors of tuning, beyond a failed trial (a failed trial is a result, not an error)."""

from __future__ import annotations

from compiler.errors import TunefarmError


class TuningError(TunefarmError):
    """The run cannot go on."""

    kind = "tuning"


class WorkloadError(TuningError, ValueError):
    """A workload description that names no kernel."""

    kind = "workload"


class UnknownKindError(TuningError, ValueError):
    """A name of no known kind of database, query, builder, runner, search, model or the like."""


class NumberError(TuningError, ValueError):
    """A number out of its range."""


class NoDevicesError(TuningError):
    """No device answers to the request, so nothing can be measured."""

    kind = "no_devices"
