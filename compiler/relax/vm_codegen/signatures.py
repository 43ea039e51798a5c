"""The signature of an executable's function: its StructInfo, as the runtime has it."""

from __future__ import annotations

from collections.abc import Mapping

from compiler.errors import CodegenError
from compiler.lower.blocks.shape_vars import extent_text, names_for
from compiler.relax.nodes import (
    FuncStructInfo,
    Function,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from compiler.runtime.vm import signature as vm
from compiler.tir import nodes as n
from compiler.tir.nodes import PrimExpr

Names = Mapping[n.Var, str]


def signature_of(func: Function) -> vm.FuncInfo:
    """The signature of a graph function; each dimension has a name of its own."""
    names = names_for(func.symbolic_vars())
    params = tuple([_info(param.struct_info, names) for param in func.params])
    return vm.FuncInfo(params, _info(func.ret_struct_info, names))


def _info(info: StructInfo, names: Names) -> vm.Info:
    match info:
        case TensorStructInfo():
            dims = _dims(info.dims, names)
            device = "" if info.vdevice is None else f"{info.vdevice.target.kind}:{info.vdevice.vdevice_id}"
            return vm.TensorInfo(info.dtype, dims, info.ndim if dims is None else len(dims), device)
        case ShapeStructInfo():
            values = _dims(info.values, names)
            return vm.ShapeInfo(values, info.ndim if values is None else len(values))
        case PrimStructInfo():
            known = None if info.value is None or info.dtype != "int64" else _dims((info.value,), names)
            return vm.PrimInfo(info.dtype, None if known is None else str(known[0]))
        case TupleStructInfo():
            return vm.TupleInfo(tuple([_info(item, names) for item in info.fields]))
        case FuncStructInfo():
            params = None if info.params is None else tuple([_info(item, names) for item in info.params])
            return vm.FuncInfo(params, _info(info.ret, names))
    return vm.ObjectInfo()


def _dims(dims: tuple[PrimExpr, ...] | None, names: Names) -> tuple[int | str, ...] | None:
    """Dimensions as numbers and text; None where one of them cannot be written as text."""
    if dims is None:
        return None
    try:
        return tuple([size.value if isinstance(size, n.IntImm) else extent_text(size, names) for size in dims])
    except CodegenError:
        return None
