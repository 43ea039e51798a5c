"""Operators of object detection."""

from compiler.relax.op.vision import *  # noqa: F403
from compiler.relax.op.vision import __all__ as __all__
