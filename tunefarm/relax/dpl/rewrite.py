"""Replacing what patterns match."""

from compiler.relax.dpl.rewrite import rewrite_bindings, rewrite_call

__all__ = ["rewrite_bindings", "rewrite_call"]
