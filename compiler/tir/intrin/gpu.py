"""Intrinsics of GPU threads: exchanges within a warp, sums over a block, atomic updates."""

from __future__ import annotations

from typing import Any

from compiler.errors import IRError
from compiler.ir.base import Op
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.intrin.intrin import call
from compiler.tir.nodes import PrimExpr

WARP = 32
FULL_MASK = -1  # every thread of a warp takes part, as int32
SHUFFLES = ("tvm_warp_shuffle", "tvm_warp_shuffle_up", "tvm_warp_shuffle_down", "tvm_warp_shuffle_xor")
ATOMICS = ("atomic_add", "atomic_max", "atomic_min")
SCOPES = ("shared", "shared.dyn", "warp", "global")

for _name in (*SHUFFLES, *ATOMICS):
    Op.register(f"tir.{_name}", pure=False)


def tvm_storage_sync(storage_scope: str) -> PrimExpr:
    """A barrier: "shared" for the threads of a block, "warp" for those of a warp."""
    if storage_scope not in SCOPES:
        raise IRError(f"there is no barrier for {storage_scope!r}", hint=f"there are {', '.join(SCOPES)}")
    return call("tir.tvm_storage_sync", "int32", n.StringImm(storage_scope))


def _shuffle(name: str, value: Any, argument: Any, width: Any, warp_size: Any, mask: Any) -> PrimExpr:
    expr = ops.as_expr(value)
    rest = (ops.as_expr(x) for x in (argument, width, warp_size))
    return n.Call(expr.dtype, Op.get(f"tir.{name}"), (ops.as_expr(mask), expr, *rest))


def tvm_warp_shuffle(mask: Any, value: Any, warp_id: Any, width: Any, warp_size: Any) -> PrimExpr:
    """Return the `value` that thread `warp_id` of the warp has."""
    return _shuffle("tvm_warp_shuffle", value, warp_id, width, warp_size, mask)


def tvm_warp_shuffle_up(mask: Any, value: Any, offset: Any, width: Any, warp_size: Any) -> PrimExpr:
    """Return the `value` of the thread `offset` before. A thread with none there keeps its own."""
    return _shuffle("tvm_warp_shuffle_up", value, offset, width, warp_size, mask)


def tvm_warp_shuffle_down(mask: Any, value: Any, offset: Any, width: Any, warp_size: Any) -> PrimExpr:
    """Return the `value` of the thread `offset` after. A thread with none there keeps its own."""
    return _shuffle("tvm_warp_shuffle_down", value, offset, width, warp_size, mask)


def tvm_warp_shuffle_xor(mask: Any, value: Any, bits: Any, width: Any, warp_size: Any) -> PrimExpr:
    """Return the `value` of the thread whose number differs in `bits`.
    A thread for which that is in a later group of `width` keeps its own."""
    return _shuffle("tvm_warp_shuffle_xor", value, bits, width, warp_size, mask)


def _atomic(name: str, element: Any, value: Any) -> PrimExpr:
    if not isinstance(element, n.BufferLoad):
        raise IRError(f"{name} changes an element of a buffer, got {type(element).__name__}", hint="for example B[i]")
    return n.Call(element.dtype, Op.get(f"tir.{name}"), (element, ops.cast(element.dtype, ops.as_expr(value))))


def atomic_add(element: Any, value: Any) -> PrimExpr:
    """Add `value` to the element of a buffer in one atomic step, and return the old element."""
    return _atomic("atomic_add", element, value)


def atomic_max(element: Any, value: Any) -> PrimExpr:
    """Raise the element to `value` if it is less, and return the old element.
    Machine code has it for integers only."""
    return _atomic("atomic_max", element, value)


def atomic_min(element: Any, value: Any) -> PrimExpr:
    """Lower the element to `value` if it is greater, and return the old element.
    Machine code has it for integers only."""
    return _atomic("atomic_min", element, value)
