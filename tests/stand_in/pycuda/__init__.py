"""Stands in for PyCUDA where there is no GPU: see driver."""
