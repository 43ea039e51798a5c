"""TensorIR: loops, blocks and scalar arithmetic over buffers.

Importing it makes its operators and its text known.
"""

from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.text import print_complete, print_func, print_newer

__all__ = ["intrin", "ops", "print_complete", "print_func", "print_newer"]
