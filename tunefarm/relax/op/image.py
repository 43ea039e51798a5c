"""Operators of images."""

from compiler.relax.op.image import *  # noqa: F403
from compiler.relax.op.image import __all__ as __all__
