"""Sizes of functions: arithmetic done, memory taken, where each buffer is used."""

from __future__ import annotations

import math
from collections.abc import Mapping

from compiler.dtype import lanes_of, parse_dtype
from compiler.errors import IRError
from compiler.ir.base import Node
from compiler.ir.module import IRModule
from compiler.ir.visit import children
from compiler.target.target import Target
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import ForKind, PrimExpr, PrimFunc, Stmt, prim_funcs

_OPERATIONS = (n.Add, n.Sub, n.Mul, n.Div, n.Mod, n.FloorDiv, n.FloorMod, n.Min, n.Max, n.CmpOp)


def estimate_tir_flops(stmt_or_mod: Stmt | PrimFunc | IRModule) -> float:
    """Count the arithmetic operations of running a statement, function, or each function of a module once.

    Those on values count. Sums, products, quotients, extremes and comparisons count one a lane; conversions, intrinsic
    calls, indices and bounds count nothing. The longer side of a branch counts. A loop annotated with "estimated_flops"
    counts as that number. Raises IRError for a loop whose extent is not known, and for `while`.
    """
    match stmt_or_mod:
        case IRModule():
            return sum(estimate_tir_flops(func) for func in prim_funcs(stmt_or_mod).values())
        case PrimFunc():
            return _flops(stmt_or_mod.body)
    return _flops(stmt_or_mod)


def _flops(node: Node) -> float:
    match node:
        case n.For():
            stated = node.annotations.get("estimated_flops")
            if stated is not None:
                return float(stated)
            inside = _flops(node.body)
            extent = ops.as_int(node.extent)
            if extent is None and inside:
                raise IRError(
                    f"the flops of loop {node.loop_var.name!r} are not known: its extent is {node.extent}",
                    hint='specialize the function, or annotate the loop with "estimated_flops"',
                )
            return inside * (extent or 0)
        case n.While():
            raise IRError("the flops of a while loop are not known")
        case n.IfThenElse():
            sides = [_flops(side) for side in (node.then_case, node.else_case) if side is not None]
            return _flops(node.condition) + max(sides)
        case n.BufferLoad():
            return 0.0
        case n.BufferStore():
            return _flops(node.value)
        case n.Block():
            return sum(_flops(part) for part in (node.init, node.body) if part is not None)
        case n.BlockRealize():
            return _flops(node.block)
        case n.Select():
            return _flops(node.condition) + max(_flops(node.true_value), _flops(node.false_value))
    own = lanes_of(node.dtype) if isinstance(node, _OPERATIONS) else 0
    return own + sum(_flops(child) for child in children(node))


def calculate_workspace_bytes(func: PrimFunc, workspace_byte_alignment: int = 1) -> int:
    """Return the most bytes of temporary memory that `func` holds at one time.
    Each allocation is rounded up to a multiple of `workspace_byte_alignment`; "local" memory, which is registers,
    counts too. Symbolic sizes count nothing."""
    return _peak(func.body, workspace_byte_alignment)


def _peak(node: Node, alignment: int) -> int:
    if isinstance(node, PrimExpr):
        return 0
    inside = max((_peak(child, alignment) for child in children(node)), default=0)
    match node:
        case n.Allocate():
            return inside + _bytes(node.extents, node.dtype, alignment)
        case n.Block():
            return inside + sum(_bytes(buffer.shape, buffer.dtype, alignment) for buffer in node.alloc_buffers)
    return inside


def _bytes(extents: tuple[PrimExpr, ...], dtype: str, alignment: int) -> int:
    parsed = parse_dtype(dtype)
    sizes = [ops.as_int(extent) for extent in extents]
    if any(size is None for size in sizes):
        return 0
    total = math.prod(size for size in sizes if size is not None) * parsed.lanes * -(-parsed.bits // 8)
    return -(-total // alignment) * alignment


def detect_buffer_access_lca(func: PrimFunc) -> Mapping[n.Buffer, Stmt | None]:
    """Return the innermost loop or block around all uses of each buffer that `func` uses.
    None where that is the function itself."""
    found: dict[n.Buffer, tuple[Stmt, ...]] = {}

    def use(buffer: n.Buffer, around: tuple[Stmt, ...]) -> None:
        known = found.get(buffer, around)
        shared = 0
        while shared < min(len(known), len(around)) and known[shared] is around[shared]:
            shared += 1
        found[buffer] = known[:shared]

    def visit(node: Node, around: tuple[Stmt, ...]) -> None:
        match node:
            case n.For() | n.Block():
                around = (*around, node)
            case n.BufferLoad() | n.BufferStore():
                use(node.buffer, around)
            case _:
                pass
        for child in children(node):
            visit(child, around)

    visit(func.body, ())
    return {buffer: around[-1] if around else None for buffer, around in found.items()}


def verify_memory(func: PrimFunc) -> bool:
    """Whether every access of a function for a GPU is made by its threads. On a CPU this always holds."""
    target = func.attrs.get("target")
    if not isinstance(target, Target) or not target.is_gpu:
        return True

    def threaded(node: Node) -> bool:
        match node:
            case n.For(kind=ForKind.THREAD_BINDING) | n.AttrStmt(attr_key="thread_extent"):
                return True
            case n.BufferLoad() | n.BufferStore():
                return False
        return all(threaded(child) for child in children(node))

    return threaded(func.body)
