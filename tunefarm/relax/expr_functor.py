"""Visiting and rewriting graphs by the kind of node."""

from compiler.relax.expr_functor import ExprFunctor, PyExprMutator, PyExprVisitor, mutator, visitor

__all__ = ["ExprFunctor", "PyExprMutator", "PyExprVisitor", "mutator", "visitor"]
