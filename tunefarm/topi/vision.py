"""Operators of object detection."""

from compiler.topi.vision import *  # noqa: F403
from compiler.topi.vision import __all__ as __all__
from tunefarm.compatibility import refuse_other_names

refuse_other_names(__name__)
