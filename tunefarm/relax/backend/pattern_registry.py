"""Patterns of what backends compute, by name."""

from compiler.relax.fusion.backends import get_pattern, get_patterns_with_prefix, register_patterns
from compiler.relax.fusion.composite import FusionPattern

__all__ = ["FusionPattern", "get_pattern", "get_patterns_with_prefix", "register_patterns"]
