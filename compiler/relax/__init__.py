"""Graphs of tensor operators, and their text."""

from compiler.relax.text import kept as kept
from compiler.relax.text import parser as parser
from compiler.relax.text import printer as printer
