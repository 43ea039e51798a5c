"""Networks that show what lies between their inputs and outputs."""

from tunefarm.contrib.debugger import debug_executor

__all__ = ["debug_executor"]
