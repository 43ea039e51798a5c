"""Intrinsics of Hopper's warpgroups (sm_90a).

There are matrix products of four warps that read shared memory by themselves (`wgmma`), and copies of a matrix's tiles
by the tensor memory accelerator (TMA). Barriers in memory order them.

Memory is given as a buffer's data variable and an offset in elements, as in `ptx_intrin`. Tiles lie in shared memory
in rows of 128 bytes, whose 16-byte chunks change places by row ("128-byte swizzle"; see `swizzled`). They start at
multiples of 1,024 bytes.
"""

from __future__ import annotations

from typing import Any

from compiler.errors import IRError
from compiler.ir.base import Op
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr

ARCH = "sm_90a"  # the one that has them
WARPGROUP = 128  # threads
ROWS, DEPTH = 64, 16  # of one product
ROW = 64  # elements of 16 bits of a row of 128 bytes
ALIGN = 1024  # bytes: eight such rows, after which the swizzle repeats
MOST_BOX = 256  # rows of a tile that TMA copies at once
DTYPES = ("float16", "bfloat16")

_NAMES = (
    "ptx_mbarrier_init", "ptx_fence_mbarrier_init", "ptx_mbarrier_arrive", "ptx_mbarrier_arrive_expect_tx",
    "ptx_mbarrier_wait_parity", "ptx_fence_proxy_async", "ptx_cp_async_bulk_tensor", "ptx_wgmma_fence",
    "ptx_wgmma_mma_async", "ptx_wgmma_commit_group", "ptx_wgmma_wait_group", "ptx_setmaxnreg",
)  # fmt: skip
CALLS = frozenset(f"tir.{name}" for name in _NAMES)  # operators that only sm_90a has
for _name in CALLS:
    Op.register(_name, pure=False)
COPY = "tir.ptx_cp_async_bulk_tensor"
LIMIT = "tir.ptx_setmaxnreg"


def swizzled(element: Any) -> Any:
    """Return where element number `element` of 16 bits, in plain rows of 128 bytes, lies after swizzling.
    It takes numpy's arrays, too."""
    return element ^ (element >> 6 & 7) << 3


def _call(name: str, *args: Any, dtype: str = "int32") -> PrimExpr:
    return n.Call(dtype, Op.get(f"tir.{name}"), tuple(ops.as_expr(x) for x in args))


def ptx_mbarrier_init(barriers: n.Var, index: Any, count: int) -> PrimExpr:
    """Make element `index` of shared uint64 memory a barrier whose phases end after `count` arrivals.
    A phase also waits for all bytes that were announced. Other threads need `ptx_fence_mbarrier_init` and a barrier
    of the block after that."""
    if not 1 <= count < 1 << 20:
        raise IRError(f"a barrier counts 1 to 2**20 - 1 arrivals, not {count}")
    return _call("ptx_mbarrier_init", barriers, index, count)


def ptx_fence_mbarrier_init() -> PrimExpr:
    """Let copies see the barriers that this thread made."""
    return _call("ptx_fence_mbarrier_init")


def ptx_mbarrier_arrive(barriers: n.Var, index: Any) -> PrimExpr:
    """Arrive at a barrier. Threads that wait for the phase then see what this thread wrote before."""
    return _call("ptx_mbarrier_arrive", barriers, index)


def ptx_mbarrier_arrive_expect_tx(barriers: n.Var, index: Any, bytes: int) -> PrimExpr:
    """Arrive, and announce `bytes` that copies bring before the phase ends."""
    return _call("ptx_mbarrier_arrive_expect_tx", barriers, index, bytes)


def ptx_mbarrier_wait_parity(barriers: n.Var, index: Any, parity: Any) -> PrimExpr:
    """Wait until the phase of that parity is over: phases count from 0.
    (The one before the first counts as over.)"""
    return _call("ptx_mbarrier_wait_parity", barriers, index, parity)


def ptx_fence_proxy_async() -> PrimExpr:
    """Let products and copies see what this thread stored to shared memory.
    Other threads' products need a barrier after that."""
    return _call("ptx_fence_proxy_async")


def ptx_cp_async_bulk_tensor(
    dtype: str, shared_ptr: n.Var, shared_offset: Any, global_ptr: n.Var, row: Any, column: Any, shape: tuple[int, int],
    box: tuple[int, int], barriers: n.Var, index: Any,
) -> PrimExpr:  # fmt: skip
    """Begin to copy the tile of `box` elements at (row, column) of a matrix to shared memory.

    The matrix has `shape` elements. The tile comes as swizzled rows of 128 bytes, and arrives at the barrier. What lies
    outside the matrix is zero. One thread calls it for all. The kernel is passed a description of the matrix (a tensor
    map) in place of `global_ptr`'s address. Raises IRError for another dtype, a box of other rows, or rows that TMA
    cannot step over.
    """
    rows, columns = box
    if dtype not in DTYPES or columns != ROW or not 1 <= rows <= MOST_BOX:
        raise IRError(
            f"ptx_cp_async_bulk_tensor copies no {rows} x {columns} {dtype}",
            hint=f"1 to {MOST_BOX} rows of {ROW} elements of {' or '.join(DTYPES)}",
        )
    if shape[1] % 8:
        raise IRError(f"rows of {shape[1]} elements do not start at multiples of 16 bytes", hint="pad them")
    return _call(
        "ptx_cp_async_bulk_tensor", shared_ptr, shared_offset, global_ptr, row, column, *shape, *box, barriers, index,
        dtype=dtype,
    )  # fmt: skip


def ptx_wgmma_fence() -> PrimExpr:
    """Order this thread's use of its registers before the products that follow."""
    return _call("ptx_wgmma_fence")


def ptx_wgmma_mma_async(
    dtype: str, columns: int, a_ptr: n.Var, a_offset: Any, b_ptr: n.Var, b_offset: Any, b_transposed: bool,
    b_leading: int, accumulator: n.Var, c_offset: Any,
) -> PrimExpr:  # fmt: skip
    """Begin accumulator += a @ b, of 64 x 16 by 16 x `columns` elements, with sums in float32.
    The elements are of `dtype` ("float16" or "bfloat16"). All threads of a warpgroup call it at once; nobody reads
    the sums before `ptx_wgmma_wait_group`.

    a: rows along k, 64 swizzled rows from `a_offset`. b: likewise rows of columns of b, or, `b_transposed`, rows along
    its columns: row k of the 64 columns from 64 i on is at b_offset + i * b_leading + 64 k. A thread holds columns / 2
    sums. Let w be its warp, g = lane // 4 and t = lane % 4. Those from 4 j on are those of row 16 w + g, columns 8 j +
    2 t and the next, and of row 16 w + g + 8.
    """
    if dtype not in DTYPES or columns % 8 or not 8 <= columns <= 256:
        raise IRError(f"there is no ptx_wgmma_mma_async of {columns} columns of {dtype}", hint="8, 16 .. 256 columns")
    if b_transposed and columns % ROW:
        raise IRError(f"a transposed operand of {columns} columns is not possible", hint=f"multiples of {ROW}")
    return _call(
        "ptx_wgmma_mma_async", columns, a_ptr, a_offset, b_ptr, b_offset, ops.const(bool(b_transposed)), b_leading,
        accumulator, c_offset, dtype=dtype,
    )  # fmt: skip


def ptx_wgmma_commit_group() -> PrimExpr:
    """Make a group of the products begun since the last one."""
    return _call("ptx_wgmma_commit_group")


def ptx_wgmma_wait_group(num: int, accumulator: n.Var, c_offset: Any = 0, count: int = 0) -> PrimExpr:
    """Wait until all but the last `num` groups are done.
    `count` sums from `c_offset` on may be read after it."""
    return _call("ptx_wgmma_wait_group", num, accumulator, c_offset, count)


def ptx_setmaxnreg(increase: bool, count: int) -> PrimExpr:
    """Ask for `count` registers for each thread of the warpgroup from here on, more than before or fewer."""
    if count % 8 or not 24 <= count <= 256:
        raise IRError(f"a thread cannot ask for {count} registers", hint="24, 32 .. 256")
    return _call("ptx_setmaxnreg", ops.const(bool(increase)), count)
