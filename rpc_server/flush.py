"""Empty the CPU's caches of a kernel's arguments, so that a sample starts from memory."""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from compiler.runtime import native
from compiler.runtime.ndarray import NDArray
from compiler.runtime.registry import register_func

_THRASH_BYTES = 256 << 20

# One cache line's flush, and a barrier after the last. Both reach every core's caches.
_LINE_FLUSH = {
    "x86_64": ("call void @llvm.x86.sse2.clflush(ptr %line)", "call void @llvm.x86.sse2.mfence()"),
    "aarch64": (
        'call void asm sideeffect "dc civac, $0", "r,~{memory}"(ptr %line)',
        'call void asm sideeffect "dsb ish", "~{memory}"()',
    ),
}
_SOURCE = """
define void @flush(ptr %start, i64 %bytes) {{
entry:
  br label %head
head:
  %at = phi i64 [ 0, %entry ], [ %next, %body ]
  %more = icmp ult i64 %at, %bytes
  br i1 %more, label %body, label %done
body:
  %line = getelementptr i8, ptr %start, i64 %at
  {line}
  %next = add i64 %at, 64
  br label %head
done:
  {fence}
  ret void
}}
declare void @llvm.x86.sse2.clflush(ptr)
declare void @llvm.x86.sse2.mfence()
"""


def flush_caches(arrays: Sequence[NDArray]) -> None:
    """Drop the arrays' memory from every cache level.

    Line by line where the CPU has an instruction for it; elsewhere by walking through more memory than any
    cache holds.
    """
    flush = _line_flusher()
    if flush is None:
        _thrash_buffer()[::64] += 1
        return
    for array in arrays:
        if array.is_host and array.nbytes:
            flush(array.data_ptr, array.nbytes)


@register_func("cache_flush_cpu_non_first_arg")
def flush_all_but_first(*args: Any) -> None:
    """For `f_preproc`: flush every array argument but the first."""
    flush_caches([arg for arg in args[1:] if isinstance(arg, NDArray)])


@lru_cache(maxsize=1)
def _line_flusher() -> Any:
    """The native flush loop, or None on a CPU it is not written for. Stays mapped for good."""
    text = _LINE_FLUSH.get(platform.machine())
    if text is None:
        return None
    source = _SOURCE.format(line=text[0], fence=text[1])
    if platform.machine() != "x86_64":
        source = "\n".join(line for line in source.splitlines() if not line.startswith("declare"))
    native.load()  # initialises LLVM's native target
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(source), native.target_machine())
    engine.finalize_object()
    address = engine.get_function_address("flush")
    engine.detach()
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(address)


@lru_cache(maxsize=1)
def _thrash_buffer() -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.zeros(_THRASH_BYTES, np.uint8)
