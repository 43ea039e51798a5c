"""TensorIR: loops, blocks and scalar arithmetic over buffers. Loading the package makes it known as a dialect."""

from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.text import parse_func, print_func

__all__ = ["intrin", "ops", "parse_func", "print_func"]
