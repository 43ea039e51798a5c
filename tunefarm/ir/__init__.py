"""What every level of the IR shares."""

from typing import TYPE_CHECKING

from compiler.driver.objects import Array, Map
from compiler.faces.ranges import Range
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
from compiler.tir.nodes import PrimExpr
from tunefarm.compatibility import refusing
from tunefarm.ir import base, container, expr, function, instrument, module, op, transform

__all__ = [
    "Array",
    "BaseFunc",
    "GlobalVar",
    "IRModule",
    "Map",
    "Node",
    "Op",
    "PrimExpr",
    "Range",
    "RelaxExpr",
    "Span",
    "VDevice",
    "assert_structural_equal",
    "base",
    "container",
    "expr",
    "function",
    "get_first_structural_mismatch",
    "instrument",
    "load_json",
    "module",
    "op",
    "save_json",
    "structural_equal",
    "structural_hash",
    "transform",
]

if not TYPE_CHECKING:  # a type checker would take every name to be there
    __getattr__ = refusing(__name__)
