"""Backends of users' own: patterns of what they compute, and code generators."""

from compiler.relax.fusion.backends import get_pattern, get_patterns_with_prefix, register_codegen, register_patterns
from tunefarm.relax.backend import pattern_registry, patterns

__all__ = [
    "get_pattern", "get_patterns_with_prefix", "pattern_registry", "patterns", "register_codegen", "register_patterns",
]  # fmt: skip
