"""Passes as objects, sequences of them, and the context they run under."""

from tunefarm import transform as _transform
from tunefarm.transform import *  # noqa: F403

__all__ = []
__all__ += _transform.__all__
