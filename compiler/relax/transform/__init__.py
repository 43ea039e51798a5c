"""Passes over graphs, one a file; `pipeline.py` is the list of those that lead to an executable."""
