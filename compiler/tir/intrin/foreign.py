"""Calls that functions of other compilers make: LLVM's intrinsics, and operators of TVM's.

The latter (`UNBUILT`) can be read, printed and passed on, so that passes can work on such functions. No backend
makes code of them.
"""

from __future__ import annotations

from typing import Any

from compiler.errors import IRError
from compiler.ir.base import Op
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.intrin.intrin import call_extern, result_dtype

FRAGMENTS = (
    "tvm_load_matrix_sync", "tvm_mma_sync", "tvm_bmma_sync", "tvm_fill_fragment", "tvm_store_matrix_sync",
    "tvm_thread_allreduce", "mma_fill", "mma_store",
)  # fmt: skip
_CALLS = (
    "tvm_call_cpacked", "tvm_call_cpacked_lowered", "tvm_call_packed_lowered", "anylist_getitem", "anylist_resetitem",
    "anylist_setitem_call_cpacked", "anylist_setitem_call_packed", "lookup_param", "tvm_check_return",
    "tvm_stack_alloca", "tvm_struct_get", "tvm_struct_set", "tvm_thread_invariant", "tvm_throw_last_error",
    "TVMBackendAllocWorkspace", "TVMBackendFreeWorkspace", "ret", "assume", "undef",
)  # fmt: skip
_INSTRUCTIONS = (
    "create_barriers", "ptx_arrive_barrier", "ptx_arrive_barrier_expect_tx", "ptx_cp_async_barrier",
    "ptx_cp_async_bulk", "ptx_init_barrier_thread_count", "ptx_mma_sp", "ptx_wait_barrier",
    "start_profile_intrinsic", "end_profile_intrinsic", "tvm_mfma", "tvm_mfma_store", "tvm_rdna_wmma",
    "tvm_rdna_wmma_store", "tvm_warp_activemask",
)  # fmt: skip
_VALUES = ("isnullptr", "q_multiply_shift", "q_multiply_shift_per_axis", "vectorcombine", "vectorhigh", "vscale")
UNBUILT = (*FRAGMENTS, *_CALLS, *_INSTRUCTIONS, *_VALUES)
"""Operators of which no backend here makes code."""
for _name in UNBUILT:
    Op.register(f"tir.{_name}", pure=_name in _VALUES)
Op.register("tir.call_llvm_intrin", pure=False)
Op.register("tir.call_llvm_pure_intrin", pure=True)

call_pure_extern = call_extern


def call_llvm_intrin(dtype: str, name: str, *args: Any, span: Any = None) -> n.Call:
    """A call of the LLVM intrinsic `name`, such as "llvm.fma", which may have effects.

    Its overload follows from `dtype`, unless `name` spells it ("llvm.fma.f32"). Older programs give as first
    argument the number of arguments that decide the overload; it is left out.
    """
    return _llvm("tir.call_llvm_intrin", dtype, name, args)


def call_llvm_pure_intrin(dtype: str, name: str, *args: Any, span: Any = None) -> n.Call:
    """Call an LLVM intrinsic without effects, as `call_llvm_intrin` does others."""
    return _llvm("tir.call_llvm_pure_intrin", dtype, name, args)


def llvm_intrinsic(name: str) -> str:
    """Return what stands for an LLVM intrinsic in calls: its name. Raises IRError for another name."""
    if not isinstance(name, str) or not name.startswith("llvm."):
        raise IRError(f"{name!r} is no LLVM intrinsic", hint='their names begin with "llvm."')
    return name


def _llvm(op: str, dtype: str, name: str, args: tuple[Any, ...]) -> n.Call:
    dtype, name = result_dtype(dtype), llvm_intrinsic(name)
    values = [ops.as_expr(arg) for arg in args]
    if values and isinstance(values[0], n.IntImm) and values[0].dtype == "uint32":
        values = values[1:]
    return n.Call(dtype, Op.get(op), (n.StringImm(name), *values))


def address_of(buffer_load: n.Buffer | n.BufferLoad, span: Any = None) -> n.Call:
    """The address of a buffer's first element, or of an element."""
    obj = buffer_load
    if isinstance(obj, n.Buffer):
        return obj.access_ptr("rw")
    if not isinstance(obj, n.BufferLoad):
        raise IRError(f"address_of takes a buffer or an element of one, not a {type(obj).__name__}")
    offset = ops.const(0)
    for index, step in zip(obj.indices, obj.buffer.steps()):
        offset = ops.add(offset, ops.mul(index, step))
    return obj.buffer.access_ptr("rw", offset=offset)
