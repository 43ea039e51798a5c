"""The shared part of every level of the IR."""

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
from compiler.tir.nodes import PrimExpr
from tunefarm.compatibility import refuse_other_names
from tunefarm.ir import attrs, base, container, expr, function, instrument, module, op, transform, type
from tunefarm.ir.attrs import Attrs, DictAttrs, make_node
from tunefarm.ir.env_func import EnvFunc
from tunefarm.ir.expr import BaseExpr, RelayExpr
from tunefarm.ir.json_objects import load_json, save_json
from tunefarm.ir.type import FuncType, PointerType, PrimType, TensorType, TupleType, Type

__all__ = [
    "Array", "Attrs", "BaseExpr", "BaseFunc", "DictAttrs", "EnvFunc", "FuncType", "GlobalVar", "IRModule", "Map",
    "Node", "Op", "PointerType", "PrimExpr", "PrimType", "Range", "RelaxExpr", "RelayExpr", "Span", "TensorType",
    "TupleType", "Type", "VDevice", "assert_structural_equal", "attrs", "base", "container", "expr", "function",
    "get_first_structural_mismatch", "instrument", "load_json", "make_node", "module", "op", "save_json",
    "structural_equal", "structural_hash", "transform", "type",
]  # fmt: skip

refuse_other_names(__name__)
