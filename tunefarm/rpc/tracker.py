"""A tracker in a child process."""

from tracker.server import Tracker

__all__ = ["Tracker"]
