"""Gradients of functions."""
