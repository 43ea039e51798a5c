"""What a schedule did, to do it again."""

from compiler.schedule.core.trace import Trace

__all__ = ["Trace"]
