"""Operators that make, move, join and select elements."""
