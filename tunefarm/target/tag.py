"""Targets by name."""

from compiler.target.tags import list_tags, register_tag

__all__ = ["list_tags", "register_tag"]
