"""States made step by step."""

from tuner.faces.auto_scheduler.loop_state import Iterator, Stage
from tuner.faces.auto_scheduler.loop_state import LoopState as State

__all__ = ["Iterator", "Stage", "State"]
