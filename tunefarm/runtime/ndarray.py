"""Arrays on devices."""

from compiler.runtime.core.device import Device
from tunefarm import nd as _nd
from tunefarm.nd import *  # noqa: F403

__all__ = ["Device"]
__all__ += _nd.__all__
