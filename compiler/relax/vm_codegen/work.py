"""Write a kernel's arithmetic as text over the extents that its calls tell."""

from __future__ import annotations

from compiler.errors import CodegenError, IRError
from compiler.lower.blocks.shape_vars import extent_text, names_for, shape_vars
from compiler.relax.nodes.dims import simplified
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.measure import estimate_tir_flops
from compiler.tir.nodes import PrimExpr, Stmt


def flops_text(func: n.PrimFunc) -> str:
    """The operations of one call, as `compiler.extents` reads them; empty where they cannot be told.

    They are counted as `estimate_tir_flops` does; loops may have extents that a call tells.
    """
    try:
        scalars = [param for param in func.params if param not in func.buffer_map]
        names = names_for([*scalars, *(bound.var for bound in shape_vars(func))])
        return extent_text(simplified(_flops(func.body)), names)
    except (IRError, CodegenError):  # a loop's extent is read from memory, for one
        return ""


def _flops(stmt: Stmt) -> PrimExpr:
    match stmt:
        case n.For():
            if "estimated_flops" in stmt.annotations:
                return ops.const(int(float(stmt.annotations["estimated_flops"])), "int64")
            inside = _flops(stmt.body)
            return inside if _is_zero(inside) else ops.mul(inside, ops.cast("int64", stmt.extent))
        case n.SeqStmt():
            total: PrimExpr = ops.const(0, "int64")
            for part in stmt.seq:
                total = ops.add(total, _flops(part))
            return total
        case n.Block():
            return ops.add(_flops(stmt.body), _flops(stmt.init)) if stmt.init is not None else _flops(stmt.body)
        case n.BlockRealize():
            return _flops(stmt.block)
        case n.LetStmt() | n.AttrStmt() | n.Allocate() | n.DeclBuffer():
            return _flops(stmt.body)
        case n.IfThenElse():
            yes = _flops(stmt.then_case)
            return ops.maximum(yes, _flops(stmt.else_case)) if stmt.else_case is not None else yes
        case _:
            return ops.const(int(estimate_tir_flops(stmt)), "int64")


def _is_zero(value: PrimExpr) -> bool:
    return isinstance(value, n.IntImm) and value.value == 0
