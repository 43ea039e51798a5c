"""What every level of the IR shares."""

from compiler.ir.base import GlobalVar, Node, Op, Span
from compiler.ir.module import IRModule
from compiler.tir.nodes import Range
from compiler.tir.structural import structural_equal, structural_hash

__all__ = ["GlobalVar", "IRModule", "Node", "Op", "Range", "Span", "structural_equal", "structural_hash"]
