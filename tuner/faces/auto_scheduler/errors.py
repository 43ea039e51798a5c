"""Errors of workloads, their records and their options."""

from __future__ import annotations

from tuner.errors import TuningError


class SchedulerError(TuningError, ValueError, kind="auto_scheduler"):
    """A workload, a record or an option that makes no sense."""
