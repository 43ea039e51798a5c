"""Intrinsics of NVIDIA's warps: matrix products on tensor cores, their operands, copies that go on by themselves.

Memory is given as a buffer's data variable and an offset in elements, as in TVM. All threads of a warp call them at
once.
"""

from __future__ import annotations

from typing import Any

from compiler.dtype import parse_dtype
from compiler.errors import IRError
from compiler.ir.base import Op
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr

# Which arguments are memory, by operator: (read, written), each (variable, offset) by the variable's position.
MEMORY: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "tir.ptx_mma": ((6, 8, 10), (10,)),
    "tir.ptx_ldmatrix": ((5,), (3,)),
    "tir.ptx_cp_async": ((2,), (0,)),
}
COPY_BYTES = (4, 8, 16)
_DTYPES = {"fp16": "float16", "bf16": "bfloat16"}

for _name in ("ptx_mma", "ptx_ldmatrix", "ptx_cp_async", "ptx_commit_group", "ptx_wait_group"):
    Op.register(f"tir.{_name}", pure=False)


def _call(name: str, dtype: str, *args: Any) -> PrimExpr:
    return n.Call(dtype, Op.get(f"tir.{name}"), tuple(ops.as_expr(x) for x in args))


def ptx_mma(
    dtype: str,
    shape: str,
    a_layout: str,
    b_layout: str,
    a_dtype: str,
    b_dtype: str,
    c_dtype: str,
    multiplicand_a: n.Var,
    a_index: Any,
    multiplicand_b: n.Var,
    b_index: Any,
    accumulator: n.Var,
    c_index: Any,
    saturate: bool = False,
) -> PrimExpr:
    """accumulator += a @ b on a tensor core: "m16n8k16", a in rows and b in columns, "fp16" or "bf16", sums in "fp32".
    `dtype` is that of the sums.

    A thread holds 8 elements of a, 4 of b and 4 of the sums, as the PTX manual's figures for mma.m16n8k16 say. With
    g = lane // 4 and t = lane % 4, as (row, column): a's pairs are (g, 2t), (g + 8, 2t), (g, 2t + 8), (g + 8, 2t + 8),
    b's (2t, g) and (2t + 8, g), the sums' (g, 2t) and (g + 8, 2t). Raises IRError for another kind.
    """
    kind = (shape, a_layout, b_layout, c_dtype, dtype, saturate)
    known = ("m16n8k16", "row", "col", "fp32", "float32", False)
    if kind != known or a_dtype != b_dtype or a_dtype not in _DTYPES:
        raise IRError(
            f"there is no ptx_mma of {(*kind, a_dtype, b_dtype)}",
            hint='there is m16n8k16, row by col, of "fp16" or "bf16" with sums in "fp32"',
        )
    texts = (n.StringImm(x) for x in (shape, a_layout, b_layout, a_dtype, b_dtype, c_dtype))
    operands = (multiplicand_a, a_index, multiplicand_b, b_index, accumulator, c_index)
    return _call("ptx_mma", dtype, *texts, *operands, ops.const(False))


def ptx_ldmatrix(
    dtype: str,
    trans: bool,
    num: int,
    type: str,
    local_ptr: n.Var,
    local_offset: Any,
    smem_ptr: n.Var,
    smem_offset: Any,
) -> PrimExpr:
    """Four matrices of 8 x 8 elements of 16 bits (`type` ".b16") from shared memory, two neighbours of each to every
    thread.

    Each thread gives where a row starts: lanes 8i to 8i + 7 those of matrix i. It gets elements 2t and 2t + 1 of row g
    (see `ptx_mma`), or of column g with `trans`, of every matrix. Raises IRError for another number of matrices.
    """
    if num != 4 or type != ".b16" or parse_dtype(dtype).bits != 16:
        raise IRError(
            f"there is no ptx_ldmatrix of {num} matrices of {type} ({dtype}) here", hint='load four, of ".b16"'
        )
    flag, kind = ops.const(bool(trans)), n.StringImm(type)
    return _call("ptx_ldmatrix", dtype, flag, num, kind, local_ptr, local_offset, smem_ptr, smem_offset)


def ptx_cp_async(
    dtype: str, shared_ptr: n.Var, shared_offset: Any, global_ptr: n.Var, global_offset: Any, bytes: int
) -> PrimExpr:
    """Begin to copy 4, 8 or 16 bytes of elements of `dtype` from global to shared memory: done after `ptx_wait_group`.
    Raises IRError for another number."""
    if bytes not in COPY_BYTES or parse_dtype(dtype).bits < 8:
        raise IRError(f"ptx_cp_async copies 4, 8 or 16 bytes, not {bytes}")
    return _call("ptx_cp_async", dtype, shared_ptr, shared_offset, global_ptr, global_offset, bytes)


def ptx_commit_group() -> PrimExpr:
    """Make a group of the thread's copies begun since the last one."""
    return _call("ptx_commit_group", "int32")


def ptx_wait_group(num: int) -> PrimExpr:
    """Wait until all but the last `num` groups of the thread have arrived. Other threads need a barrier after that."""
    return _call("ptx_wait_group", "int32", num)
