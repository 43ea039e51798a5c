"""How tasks are searched."""

from tuner.faces.auto_scheduler.search_policy import EmptyPolicy, PreloadMeasuredStates, SearchPolicy, SketchPolicy

__all__ = ["EmptyPolicy", "PreloadMeasuredStates", "SearchPolicy", "SketchPolicy"]
