"""Operators of object detection."""

from compiler.topi.vision import *  # noqa: F403
from compiler.topi.vision import __all__ as __all__
