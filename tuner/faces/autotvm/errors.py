"""Errors of a template or its records."""

from __future__ import annotations

from compiler.errors import ScheduleError
from tuner.errors import TuningError


class ConfigError(TuningError, ValueError):
    """A config space that is defined or asked wrongly."""

    kind = "autotvm_config"


class InstantiationError(ScheduleError):
    """A template cannot be instantiated with a config: a trial of it fails with kind `instantiate`."""

    kind = "autotvm_instantiation"


class AutotvmRecordError(TuningError, ValueError):
    """A line that is no tuning record, or one that cannot be used here."""

    kind = "autotvm_record"
