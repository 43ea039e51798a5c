"""Instruments of passes."""

from tunefarm import instrument as _instrument
from tunefarm.instrument import *  # noqa: F403

__all__ = []
__all__ += _instrument.__all__
