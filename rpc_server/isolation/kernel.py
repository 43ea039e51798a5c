"""Thin calls of the Linux kernel for which Python has no function. All raise OSError.

Numbers: unistd_64.h of x86-64, and asm-generic/unistd.h, which AArch64 and RISC-V follow.
"""

from __future__ import annotations

import ctypes
import os
import platform

PR_SET_DUMPABLE = 4
_PR_SET_NAME = 15
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38

NEW_MOUNTS = 0x00020000
NEW_IPC = 0x08000000
NEW_USER = 0x10000000
NEW_PIDS = 0x20000000
NEW_NETWORK = 0x40000000

READ_ONLY, NO_SUID, NO_DEVICES, NO_EXEC = 1, 2, 4, 8
REMOUNT, BIND, RECURSIVE, PRIVATE = 32, 4096, 16384, 1 << 18
_DETACH = 2
_AT_FDCWD = -100
_AT_RECURSIVE = 0x8000
_CAPABILITY_VERSION_3 = 0x20080522

X86_64, GENERIC = 0, 1
_ARCHITECTURES = {"x86_64": X86_64, "aarch64": GENERIC, "riscv64": GENERIC}
ARCHITECTURE = _ARCHITECTURES.get(platform.machine())
"""Which column of a table of system calls holds here; None: neither."""

_PIVOT_ROOT = (155, 41)
_CAPSET = (126, 91)
_SECCOMP = (317, 277)
_MOUNT_SETATTR = (442, 442)

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


class _MountAttributes(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "namespace")]


def call(number: int, *arguments: object) -> int:
    """A system call by its number. Integers go as 64 bits, bytes and ctypes objects as pointers."""
    words = [ctypes.c_long(word) if isinstance(word, int) else word for word in arguments]
    return _checked(_libc.syscall(ctypes.c_long(number), *words))


def number_of(numbers: tuple[int, int]) -> int:
    """The number that a system call has on this machine. Raises OSError where it is not known."""
    if ARCHITECTURE is None:
        raise OSError(0, f"the system calls of {platform.machine()} are not known")
    return numbers[ARCHITECTURE]


def prctl(option: int, value: int) -> None:
    _checked(_libc.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)))


def name_process(name: str) -> None:
    """Set what ps(1) calls this process: up to 15 letters."""
    _checked(_libc.prctl(_PR_SET_NAME, name.encode(), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)))


def unshare(flags: int) -> None:
    _checked(_libc.unshare(ctypes.c_int(flags)))


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    words = [os.fsencode(word) if word else None for word in (source, target, kind)]
    _checked(_libc.mount(*words, ctypes.c_ulong(flags), os.fsencode(options) if options else None), target)


def read_only_tree(path: str) -> None:
    """Make all that is mounted at `path` and below read-only (Linux 5.12).
    Set-user-id bits there have no effect."""
    attributes = _MountAttributes(set=READ_ONLY | NO_SUID)
    flags = ctypes.c_uint(_AT_RECURSIVE)
    size = ctypes.c_size_t(ctypes.sizeof(attributes))
    number = ctypes.c_long(number_of(_MOUNT_SETATTR))
    where = ctypes.c_int(_AT_FDCWD)
    _checked(_libc.syscall(number, where, os.fsencode(path), flags, ctypes.byref(attributes), size), path)


def pivot_root(new_root: str) -> None:
    """Make a mounted folder the root of every process here, and let go of the old one."""
    os.chdir(new_root)
    call(number_of(_PIVOT_ROOT), b".", b".")
    _checked(_libc.umount2(b".", _DETACH))
    os.chdir("/")


def drop_capabilities() -> None:
    """Give up every capability of this thread, for good together with PR_SET_NO_NEW_PRIVS."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    call(number_of(_CAPSET), header, (ctypes.c_uint32 * 6)())


def install_filter(flags: int, program: ctypes.Structure) -> None:
    """seccomp(SECCOMP_SET_MODE_FILTER)."""
    number, set_mode_filter = ctypes.c_long(number_of(_SECCOMP)), ctypes.c_uint(1)
    _checked(_libc.syscall(number, set_mode_filter, ctypes.c_uint(flags), ctypes.byref(program)))


def _checked(result: int, path: str = "") -> int:
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error), path or None)
    return result
