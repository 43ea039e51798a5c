"""Errors of a template or its records."""

from __future__ import annotations

from compiler.errors import ScheduleError
from tuner.errors import TuningError


class ConfigError(TuningError, ValueError, kind="autotvm_config"):
    """A config space that is defined or asked wrongly."""


class InstantiationError(ScheduleError, kind="autotvm_instantiation"):
    """A template cannot be instantiated with a config: a trial of it fails with kind `instantiate`."""


class AutotvmRecordError(TuningError, ValueError, kind="autotvm_record"):
    """A line that is no tuning record, or one that cannot be used here."""
