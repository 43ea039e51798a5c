"""TensorIR: loops, blocks and scalar arithmetic over buffers. Loading the package makes its printers known."""

from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.text import print_func

__all__ = ["intrin", "ops", "print_func"]
