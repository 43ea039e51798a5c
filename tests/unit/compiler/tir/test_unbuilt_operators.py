"""Operators of which no backend makes code: built, read and printed as by Apache TVM 0.17."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.errors import CodegenError, IRError, LoweringError
from compiler.ir.structural import assert_structural_equal
from compiler.runtime.core.ndarray import array, empty
from compiler.script.entry import from_source
from compiler.tir import nodes as n
from compiler.tir.intrin.foreign import UNBUILT
from tunefarm import build, tir
from tunefarm.script import tir as T
from tunefarm.target.codegen import llvm_get_intrinsic_name, llvm_lookup_intrinsic_id

x, h, v = n.Var("x", "int32"), n.Var("h", "handle"), n.Var("v", "float32x4")
FRAGMENT = ("float32", "m16n8k32", "row", "col", "fp16", "fp16", "fp16", h, 0, h, 0, h, 0)
CALLS = [
    (tir.ret(x), "int32", "T.ret(x)"),
    (tir.undef(), "int32", "T.undef()"),
    (tir.assume(cond=x > 1), "bool", "T.assume(x > 1)"),
    (tir.call_cpacked("s", x), "int32", 'T.call_cpacked("s", x)'),
    (tir.call_packed_lowered("s", x), "int32", 'T.call_packed_lowered("s", x)'),
    (tir.isnullptr(h), "bool", "T.isnullptr(h)"),
    (tir.lookup_param(param_name="p"), "handle", 'T.lookup_param("p")'),
    (tir.tvm_check_return(x, x, x), "int32", "T.tvm_check_return(x, x, x)"),
    (tir.tvm_stack_alloca(dtype_str="array", num=4), "handle", 'T.tvm_stack_alloca("array", 4)'),
    (tir.tvm_struct_get(h, 0, 1, "float32"), "float32", 'T.tvm_struct_get(h, 0, 1, "float32")'),
    (tir.tvm_struct_set(h, 0, 1, value=x), "int32", "T.tvm_struct_set(h, 0, 1, x)"),
    (tir.tvm_throw_last_error(), "handle", "T.tvm_throw_last_error()"),
    (tir.ptx_mma_sp(*FRAGMENT, h, 0, 0, False), "float32", None),
    (tir.tvm_mfma(*FRAGMENT), "float32", None),
    (tir.q_multiply_shift(x, x, q=31, s=2), "int32", "T.q_multiply_shift(x, x, 31, 2)"),
    (tir.vectorhigh("float32x2", v), "float32x2", 'T.vectorhigh("float32x2", v)'),
    (tir.vectorcombine("float32x8", v, v), "float32x8", 'T.vectorcombine("float32x8", v, v)'),
    (tir.vscale(), "int32", "T.vscale()"),
    (tir.op.tvm_warp_activemask(), "uint32", "T.tvm_warp_activemask()"),
    (tir.start_profile_intrinsic(id=1), "handle", "T.start_profile_intrinsic(1)"),
    (tir.ptx_wait_barrier(barrier_id=1), "int32", "T.ptx_wait_barrier(1)"),
    (T.anylist_getitem(h, 1), "handle", "T.anylist_getitem(h, 1)"),
]


@pytest.mark.parametrize(("call", "dtype", "text"), CALLS, ids=[call.op.name for call, _, _ in CALLS])
def test_a_call_has_its_dtype_and_text(call: n.Call, dtype: str, text: str | None) -> None:
    assert call.dtype == dtype
    assert call.op.name.removeprefix("tir.") in UNBUILT
    last = call.script(verbose_expr=True).splitlines()[-1]
    assert text is None or last == text
    func = from_source(f"@T.prim_func\ndef f(x: T.int32, h: T.handle, v: T.float32x4):\n    {last}")
    read = func.body.value  # type: ignore[attr-defined]
    assert (read.op.name, read.dtype, len(read.args)) == (call.op.name, dtype, len(call.args))
    assert_structural_equal(from_source(func.script()), func)


def test_a_function_that_returns_is_read_and_not_built() -> None:
    body = 'A[0] = T.undef(dtype="int32")\n    T.ret(0)'
    func = from_source(f'@T.prim_func\ndef f(A: T.Buffer((4,), "int32")):\n    {body}')
    assert func.script(verbose_expr=True).splitlines()[-2:] == ["    A[0] = T.undef()", "    T.ret(0)"]
    with pytest.raises(CodegenError, match=r"calls tir\.(undef|ret), which code generation"):
        build(func, target="llvm")
    with pytest.raises(LoweringError, match="no rule for the intrinsic undef"):
        build(func, target="stackvm")(empty((4,), "int32"))


def test_a_call_without_a_result_is_void() -> None:
    func = from_source('@T.prim_func\ndef f(x: T.int32):\n    T.call_extern("void", "g", x)')
    assert func.body.value.dtype == "handle"  # type: ignore[attr-defined]
    assert tir.call_extern("void", "g", x).dtype == tir.call_intrin("void", "tir.exp", 1.0).dtype == "handle"


def test_an_intrinsic_of_llvm_is_found_by_what_stands_for_it() -> None:
    found = llvm_lookup_intrinsic_id("llvm.fma")
    assert llvm_get_intrinsic_name(found) == "llvm.fma"
    with pytest.raises(IRError, match="no LLVM intrinsic"):
        llvm_lookup_intrinsic_id("fma")
    call = 'T.call_llvm_pure_intrin("float32", T.llvm_lookup_intrinsic_id("llvm.fma"), T.uint32(3), A[1], A[2], A[3])'
    func = from_source(f'@T.prim_func\ndef f(A: T.Buffer((4,), "float32")):\n    A[0] = {call}')
    values = array(np.array([0, 2, 3, 4], dtype="float32"))
    build(func, target="llvm")(values)
    assert values.numpy().tolist() == [10, 2, 3, 4]
