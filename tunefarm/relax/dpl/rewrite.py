"""Replacing what patterns match."""

from compiler.relax.dpl.rewrite import rewrite_bindings, rewrite_call
from compiler.relax.dpl.rewriters import ExprPatternRewriter, OrRewriter, PatternMatchingRewriter, TupleRewriter

__all__ = [
    "ExprPatternRewriter", "OrRewriter", "PatternMatchingRewriter", "TupleRewriter", "rewrite_bindings", "rewrite_call",
]  # fmt: skip
