"""Tuning of whole models, under the module's name in TVM."""

from tuner.faces.meta_schedule.relax_integration import (
    ExtractedTask,
    compile_relax,
    extract_tasks,
    extracted_tasks_to_tune_contexts,
    tune_relax,
)

__all__ = ["ExtractedTask", "compile_relax", "extract_tasks", "extracted_tasks_to_tune_contexts", "tune_relax"]
