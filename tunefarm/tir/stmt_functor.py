"""Visiting and rewriting statements."""

from compiler.tir.stmt_functor import ir_transform, post_order_visit, pre_order_visit, renew_defs, substitute

__all__ = ["ir_transform", "post_order_visit", "pre_order_visit", "renew_defs", "substitute"]
