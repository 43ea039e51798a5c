"""Gradients of operators: each a rule that a declaration names."""
