"""Operators on images."""

from compiler.topi.image import *  # noqa: F403
from compiler.topi.image import __all__ as __all__
