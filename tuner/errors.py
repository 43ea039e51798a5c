"""Errors of tuning, beyond a failed trial (a failed trial is a result, not an error)."""

from __future__ import annotations

from compiler.errors import TunefarmError


class TuningError(TunefarmError, kind="tuning"):
    """The run cannot go on."""


class WorkloadError(TuningError, ValueError, kind="workload"):
    """A workload description that names no kernel."""


class UnknownKindError(TuningError, ValueError):
    """A name of no known kind of database, query, builder, runner, search, model or the like."""


class NumberError(TuningError, ValueError):
    """A number out of its range."""


class NoDevicesError(TuningError, kind="no_devices"):
    """No device answers to the request, so nothing can be measured."""
