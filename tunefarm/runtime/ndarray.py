"""Arrays on devices."""

from compiler.runtime.core.device import Device as Device
from tunefarm.nd import *  # noqa: F403
