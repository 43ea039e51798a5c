"""Helpers for training graphs."""

from tunefarm.relax.training import utils

__all__ = ["utils"]
