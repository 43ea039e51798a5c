"""Intrinsics of NVIDIA's warps: tensor-core products, their operands, and asynchronous copies.

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
# Kinds of products: (shape, dtype of the sums as it is called here and there) by the operands' dtypes.
_FLOATS, _WHOLE = ("m16n8k16", "fp32", "float32"), ("m16n8k32", "int32", "int32")
_MMA_KINDS = {("fp16", "fp16"): _FLOATS, ("bf16", "bf16"): _FLOATS} | {
    (a, b): _WHOLE for a in ("int8", "uint8") for b in ("int8", "uint8")
}

for _name in ("ptx_mma", "ptx_ldmatrix", "ptx_cp_async", "ptx_commit_group", "ptx_wait_group"):
    Op.register(f"tir.{_name}", pure=False)


def _call(name: str, dtype: str, *args: Any) -> PrimExpr:
    return n.Call(dtype, Op.get(f"tir.{name}"), tuple(ops.as_expr(x) for x in args))


def ptx_mma(
    dtype: str, shape: str, a_layout: str, b_layout: str, a_dtype: str, b_dtype: str, c_dtype: str,
    multiplicand_a: n.Var, a_index: Any, multiplicand_b: n.Var, b_index: Any, accumulator: n.Var, c_index: Any,
    saturate: bool = False,
) -> PrimExpr:  # fmt: skip
    """accumulator += a @ b on a tensor core, a in rows and b in columns.

    "m16n8k16" of "fp16" or "bf16" with sums in "fp32", or "m16n8k32" of "int8" and "uint8" in any pair with sums in
    "int32". `dtype` is that of the sums.

    A thread holds 8 elements of a, 4 of b (twice as many bytes) and 4 of the sums, as the PTX manual's figures for
    mma.m16n8k16 say. Let g = lane // 4 and t = lane % 4. As (row, column), a's pairs are (g, 2t), (g + 8, 2t), (g, 2t +
    8), (g + 8, 2t + 8). b's are (2t, g) and (2t + 8, g), the sums' (g, 2t) and (g + 8, 2t). Of bytes, four take the
    place of two: a's begin at (g, 4t), (g + 8, 4t), (g, 4t + 16), (g + 8, 4t + 16). Raises IRError for another kind.
    """
    known = _MMA_KINDS.get((a_dtype, b_dtype))
    if known != (shape, c_dtype, dtype) or (a_layout, b_layout) != ("row", "col") or saturate:
        raise IRError(
            f"there is no ptx_mma of {(shape, a_layout, b_layout, a_dtype, b_dtype, c_dtype, dtype, saturate)}",
            hint='there is, row by col, m16n8k16 of "fp16" or "bf16" with sums in "fp32", and m16n8k32 of "int8" and '
            '"uint8" with sums in "int32"',
        )
    texts = (n.StringImm(x) for x in (shape, a_layout, b_layout, a_dtype, b_dtype, c_dtype))
    operands = (multiplicand_a, a_index, multiplicand_b, b_index, accumulator, c_index)
    return _call("ptx_mma", dtype, *texts, *operands, ops.const(False))


def ptx_ldmatrix(
    dtype: str, trans: bool, num: int, type: str, local_ptr: n.Var, local_offset: Any, smem_ptr: n.Var, smem_offset: Any
) -> PrimExpr:
    """Load four matrices of 8 x 8 elements of 16 bits (`type` ".b16") from shared memory.
    Each thread gets two neighbours of each. Two bytes may be such an element.

    Each thread gives where a row starts: lanes 8i to 8i + 7 those of matrix i. It gets elements 2t and 2t + 1 of row g
    (see `ptx_mma`), or of column g with `trans`, of every matrix. Raises IRError for another number of matrices, and
    for bytes with `trans`, which would keep pairs of a row together.
    """
    bits = parse_dtype(dtype).bits
    if num != 4 or type != ".b16" or bits not in (8, 16) or (bits == 8 and trans):
        raise IRError(
            f"there is no ptx_ldmatrix of {num} matrices of {type} ({dtype}{', trans' if trans else ''}) here",
            hint='load four, of ".b16"',
        )
    flag, kind = ops.const(bool(trans)), n.StringImm(type)
    return _call("ptx_ldmatrix", dtype, flag, num, kind, local_ptr, local_offset, smem_ptr, smem_offset)


def ptx_cp_async(
    dtype: str, shared_ptr: n.Var, shared_offset: Any, global_ptr: n.Var, global_offset: Any, bytes: int,
    predicate: Any = None,
) -> PrimExpr:  # fmt: skip
    """Begin to copy 4, 8 or 16 bytes of elements of `dtype` from global to shared memory.
    The copy is done after `ptx_wait_group`. Where a `predicate` does not hold, zeros arrive and nothing is read.
    Raises IRError for another number."""
    if bytes not in COPY_BYTES or parse_dtype(dtype).bits < 8:
        raise IRError(f"ptx_cp_async copies 4, 8 or 16 bytes, not {bytes}")
    condition = () if predicate is None else (predicate,)
    return _call("ptx_cp_async", dtype, shared_ptr, shared_offset, global_ptr, global_offset, bytes, *condition)


def ptx_commit_group() -> PrimExpr:
    """Make a group of the thread's copies begun since the last one."""
    return _call("ptx_commit_group", "int32")


def ptx_wait_group(num: int) -> PrimExpr:
    """Wait until all but the last `num` groups of the thread have arrived.
    Other threads need a barrier after that."""
    return _call("ptx_wait_group", "int32", num)
