"""Functions to run before each repeat of a measurement, by their names for `f_preproc`.

- cache_flush_cpu_non_first_arg: drop every array argument but the first from all caches (TVM's name);
- cache_flush_cpu: drop every array argument;
- cache_thrash_cpu: walk through twice the last-level cache, which drops what the kernel allocates itself, too;
- randomize_arguments: fill the array arguments of numbers with new random values.
"""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from compiler.runtime.core import native
from compiler.runtime.core.fill import random_values
from compiler.runtime.core.ndarray import NDArray
from compiler.runtime.core.registry import get_global_func, register_func

_LARGE_CACHE = 128 << 20
"""Taken for the last-level cache's size where the machine does not tell it."""

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
        thrash_caches()
        return
    for array in arrays:
        if array.is_host and array.nbytes:
            flush(array.data_ptr, array.nbytes)


@register_func("cache_flush_cpu_non_first_arg")
def flush_all_but_first(*args: Any) -> None:
    """Drop every array argument but the first, which TVM takes for the weights a caller keeps warm."""
    flush_caches(_arrays(args[1:]))


@register_func("cache_flush_cpu")
def flush_all(*args: Any) -> None:
    """Drop every array argument from the caches."""
    flush_caches(_arrays(args))


@register_func("cache_thrash_cpu")
def thrash_caches(*args: Any) -> None:
    """Write through twice the last-level cache."""
    _thrash_buffer()[::64] += 1


@register_func("randomize_arguments")
def randomize_arguments(*args: Any) -> None:
    """New values for every array argument: see `random_values`."""
    for array in _arrays(args):
        array.copyfrom(random_values(array.shape, array.dtype, _random))


def preprocessor(name: str) -> Callable[..., object] | None:
    """The registered function `name`; None for "". Raises RegistryError for a name that is not registered."""
    return get_global_func(name) if name else None


def last_level_cache_bytes() -> int | None:
    """The size of this machine's largest cache, where Linux tells it."""
    sizes: list[int] = []
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        try:
            sizes.append(int(path.read_text("utf-8").strip().removesuffix("K")) << 10)
        except (OSError, ValueError):
            continue
    return max(sizes, default=None)


def _arrays(args: Sequence[Any]) -> list[NDArray]:
    return [arg for arg in args if isinstance(arg, NDArray)]


_random = np.random.default_rng(0)


@lru_cache(maxsize=1)
def _line_flusher() -> Any:
    """The native flush loop, or None on a CPU it is not written for. Stays mapped for good."""
    text = _LINE_FLUSH.get(platform.machine())
    if text is None:
        return None
    source = _SOURCE.format(line=text[0], fence=text[1])
    if platform.machine() != "x86_64":
        source = "\n".join(line for line in source.splitlines() if not line.startswith("declare"))
    import llvmlite.binding as llvm

    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(source), native.target_machine())
    engine.finalize_object()
    address = engine.get_function_address("flush")
    engine.detach()
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(address)


@lru_cache(maxsize=1)
def _thrash_buffer() -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.zeros(2 * (last_level_cache_bytes() or _LARGE_CACHE), np.uint8)
