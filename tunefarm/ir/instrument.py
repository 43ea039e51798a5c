"""Instruments of passes."""

from tunefarm.instrument import *  # noqa: F403
