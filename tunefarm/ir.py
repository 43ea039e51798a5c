"""What every level of the IR shares."""

from compiler.ir import module
from compiler.ir.base import GlobalVar, Node, Op, RelaxExpr, Span
from compiler.ir.function import BaseFunc
from compiler.ir.module import IRModule
from compiler.ir.structural import (
    assert_structural_equal,
    get_first_structural_mismatch,
    structural_equal,
    structural_hash,
)
from compiler.ir.vdevice import VDevice
from compiler.script.saved import load_json, save_json
from compiler.tir.nodes import Range
from tunefarm import instrument, transform

__all__ = [
    "BaseFunc",
    "GlobalVar",
    "IRModule",
    "Node",
    "Op",
    "Range",
    "RelaxExpr",
    "Span",
    "VDevice",
    "assert_structural_equal",
    "get_first_structural_mismatch",
    "instrument",
    "load_json",
    "module",
    "save_json",
    "structural_equal",
    "structural_hash",
    "transform",
]
