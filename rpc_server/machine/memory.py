"""The C library's allocator, told what a process that passes chunks along needs."""

from __future__ import annotations

import contextlib
import ctypes
from functools import cache

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3


def keep_freed_memory(below: int = 32 << 20, keep: int = 256 << 20) -> None:
    """Reuse freed buffers of up to `below` bytes instead of returning them to the kernel.

    It is for glibc; elsewhere it does nothing. A chunk of a MiB that is mapped, faulted in page by page and unmapped
    costs more than copying it.
    """
    with contextlib.suppress(AttributeError, OSError):
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_MMAP_THRESHOLD, below)
        libc.mallopt(_M_TRIM_THRESHOLD, keep)


@cache
def expect_big_buffers() -> None:
    """Have glibc reuse buffers of up to 32 MiB, without changing a setting that a user may have made.

    glibc does so by itself once a program has freed a buffer of that size, so one is freed here.
    """
    with contextlib.suppress(AttributeError, OSError):
        libc = ctypes.CDLL(None)
        libc.malloc.restype = ctypes.c_void_p
        libc.malloc.argtypes = [ctypes.c_size_t]
        libc.free.argtypes = [ctypes.c_void_p]
        libc.free(libc.malloc((32 << 20) - (64 << 10)))
