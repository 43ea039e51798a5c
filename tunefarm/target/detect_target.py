"""The target of a device."""

from __future__ import annotations

from typing import Any

from compiler.target.target import Target
from tunefarm.compatibility import refuse_other_names

__all__ = ["Target", "detect_target_from_device"]

refuse_other_names(__name__)


def detect_target_from_device(dev: Any) -> Target:
    """The target of a device of this machine, given as such or by its name."""
    return Target.from_device(dev)
