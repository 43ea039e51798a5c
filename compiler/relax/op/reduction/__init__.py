"""Operators that reduce, search, sort and scan."""
