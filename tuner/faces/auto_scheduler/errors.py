"""Errors of workloads, their records and their options."""

from __future__ import annotations

from tuner.errors import TuningError


class SchedulerError(TuningError, ValueError):
    """A workload, a record or an option that makes no sense."""

    kind = "auto_scheduler"
