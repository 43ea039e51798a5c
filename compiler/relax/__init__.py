"""Graphs of tensor operators, and their text."""

from compiler.relax.text import printer as printer
