"""Tuning of whole models that are programs of Relay, under the module's name in TVM."""

from tunefarm.meta_schedule.utils import is_meta_schedule_enabled
from tuner.faces.meta_schedule.relax_integration import extracted_tasks_to_tune_contexts
from tuner.faces.meta_schedule.relay_integration import compile_relay, extract_tasks, tune_relay

__all__ = [
    "compile_relay",
    "extract_tasks",
    "extracted_tasks_to_tune_contexts",
    "is_meta_schedule_enabled",
    "tune_relay",
]
