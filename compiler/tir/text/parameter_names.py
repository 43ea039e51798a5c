"""The names that arguments of operators have in texts, as in `T.exp(x=A[i])`."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from compiler.errors import IRError

_UNARY = (
    "acos asin atan bitwise_not ceil clz cos cosh erf exp exp10 exp2 floor isfinite isinf isnan log log10 log1p log2 "
    "nearbyint popcount round rsqrt sigmoid sin sinh sqrt tan tanh trunc"
)
_FRAGMENTS = "fragment_d index_d fragment_a index_a fragment_b index_b fragment_c index_c"
_MATRIX = "fragment m n k index buffer_ptr stride layout"
_MMA = (
    "shape A_layout B_layout A_dtype B_dtype C_dtype multiplicand_a a_index multiplicand_b b_index accumulator c_index"
)
_NAMES: dict[str, str] = {
    **dict.fromkeys(_UNARY.split(), "x"),
    **dict.fromkeys(("atan2", "copysign", "hypot", "ldexp", "nextafter"), "x1 x2"),
    **dict.fromkeys(("bitwise_and", "bitwise_or", "bitwise_xor", "fmod", "shift_left", "shift_right"), "x y"),
    "fma": "x y z",
    "if_then_else": "cond t f",
    "likely": "cond",
    "mma_fill": "local_size local_ptr offset",
    "mma_store": "m n dst_ptr src_ptr src_offset dst_stride",
    "prefetch": "buffer bounds",
    "ptx_cp_async": "shared_ptr shared_offset global_ptr global_offset bytes",
    "ptx_ldmatrix": "trans num type local_ptr local_offset smem_ptr smem_offset",
    "ptx_mma": "shape A_layout B_layout A_dtype B_dtype C_dtype multiplicand_a a_index multiplicand_b b_index "
    "accumulator c_index saturate operator",
    "ptx_wait_group": "num",
    "reinterpret": "value",
    "tvm_access_ptr": "ptype data offset extent rw_mask",
    "tvm_bmma_sync": _FRAGMENTS,
    "tvm_fill_fragment": "fragment m n k index value",
    "tvm_load_matrix_sync": _MATRIX,
    "tvm_mma_sync": _FRAGMENTS,
    "tvm_stack_make_array": "data shape strides ndim arr_dtype elem_offset",
    "tvm_store_matrix_sync": _MATRIX,
    "vectorlow": "vec",
    "vectorhigh": "vec",
    "vectorcombine": "vec1 vec2",
    **dict.fromkeys(("assume", "tvm_thread_invariant"), "cond"),
    "ret": "val",
    "isnullptr": "x",
    "lookup_param": "param_name",
    **dict.fromkeys(("anylist_getitem", "anylist_resetitem"), "list_handle index"),
    "tvm_check_return": "expected return_unexpected nested_call",
    "tvm_stack_alloca": "dtype_str num",
    "tvm_struct_set": "arr index field value",
    "TVMBackendAllocWorkspace": "device_type device_id nbytes dtype_code_hint dtype_bits_hint",
    "TVMBackendFreeWorkspace": "device_type device_id ptr",
    "create_barriers": "barrier_count",
    **dict.fromkeys(("ptx_arrive_barrier", "ptx_cp_async_barrier", "ptx_wait_barrier"), "barrier_id"),
    "ptx_arrive_barrier_expect_tx": "barrier_id byte_count",
    "ptx_init_barrier_thread_count": "barrier_id thread_count",
    "ptx_cp_async_bulk": "shared_ptr shared_offset global_ptr global_offset bytes barrier_id",
    "ptx_mma_sp": f"{_MMA} metadata meta_index sparse_selector saturate",
    **dict.fromkeys(("tvm_mfma", "tvm_rdna_wmma"), _MMA),
    **dict.fromkeys(("tvm_mfma_store", "tvm_rdna_wmma_store"), "m n dst_ptr src_ptr src_offset dst_stride"),
    "q_multiply_shift": "x y q s",
    "q_multiply_shift_per_axis": "x y ls rs q is_lshift_required is_rshift_required",
    **dict.fromkeys(("start_profile_intrinsic", "end_profile_intrinsic"), "id"),
}
"""By operator, without the dtype that some have before their arguments."""


def arranged(name: str, args: Sequence[Any], named: Mapping[str, Any], is_typed: bool = False) -> tuple[Any, ...]:
    """Return all arguments of the operator in order. With `is_typed` the first one of `args` is a dtype.

    Raises IRError for a name that is not there, or that leaves one before it open.
    """
    if not named:
        return tuple(args)
    names = _NAMES.get(name, "").split()
    missing = names[max(0, len(args) - is_typed) :][: len(named)]
    if set(missing) != set(named):
        unknown = ", ".join(sorted(set(named) - set(missing)))
        raise IRError(f"T.{name} does not take {unknown} there", hint=f"its arguments: {', '.join(names) or 'unnamed'}")
    return (*args, *(named[key] for key in missing))


def signature(name: str, is_typed: bool) -> inspect.Signature:
    """Return how the operator may be called, for those who look."""
    named = [*(["dtype"] if is_typed else []), *_NAMES.get(name, "").split()]
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(key, kind) for key in named]
    if name not in _NAMES:
        parameters.append(inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL))
    if not is_typed:
        parameters.append(inspect.Parameter("dtype", inspect.Parameter.KEYWORD_ONLY, default=None))
    return inspect.Signature(parameters)
