"""Refuse system calls that no client's kernel needs, by a seccomp filter.

They mount, make namespaces, look into other processes, or open rarely used doors of the system. The caller gets
`EPERM` or the like; nothing is killed. Source: Linux, Documentation/userspace-api/seccomp_filter.rst.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import struct
from enum import Enum, auto

from rpc_server.isolation.kernel import ARCHITECTURE, PR_SET_NO_NEW_PRIVS, install_filter, prctl

_REFUSED: dict[str, tuple[int, int]] = {  # (x86-64, AArch64 and RISC-V); -1: none
    "shmget": (29, 194),
    "semget": (64, 190),
    "msgget": (68, 186),
    "mq_open": (240, 180),
    "ptrace": (101, 117),
    "syslog": (103, 116),
    "vhangup": (153, 58),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "acct": (163, 89),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "mount": (165, 40),
    "umount2": (166, 39),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "iopl": (172, -1),
    "ioperm": (173, -1),
    "init_module": (175, 105),
    "delete_module": (176, 106),
    "finit_module": (313, 273),
    "quotactl": (179, 60),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "unshare": (272, 97),
    "setns": (308, 268),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "bpf": (321, 280),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "pidfd_getfd": (438, 438),
    "mount_setattr": (442, 442),
    "quotactl_fd": (443, 443),
}
_SOCKET, _SOCKETPAIR, _CLONE, _CLONE3 = (41, 198), (53, 199), (56, 220), (435, 435)
_NAMESPACES = 0x7E020000
"""The flags of clone(2) that make namespaces."""
_AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7, "riscv64": 0xC00000F3}
_X32_BIT = 0x40000000
_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_STREAM, _TYPE_BITS = 1, 0xF

_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_NUMBER, _ARCH, _FIRST, _SECOND = 0, 4, 16, 24  # offsets in struct seccomp_data; low words
_ALL_THREADS, _KEEP_SPECULATION = 1, 4


class Sockets(Enum):
    """The sockets that a process may make.
    Any, in an empty network of its own; Unix sockets only; or only pairs."""

    OF_ITS_NETWORK = auto()
    UNIX = auto()
    NONE = auto()


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]


def filter_system_calls(sockets: Sockets) -> None:
    """Refuse the calls to this process, each of its threads, and all it starts.

    Raises OSError where the kernel cannot. The CPU's speculation stays on: kernels before 5.16 would turn off a part of
    it, and so slow down everything else.
    """
    code = program(sockets)
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    install_filter(_ALL_THREADS | _KEEP_SPECULATION, _Program(len(code) // 8, code))


def program(sockets: Sockets) -> bytes:
    """The filter in the kernel's instructions (classic BPF).
    Raises OSError on machines it is not known for."""
    if ARCHITECTURE is None:
        raise OSError(errno.ENOSYS, f"the system calls of {platform.machine()} are not known")
    column = ARCHITECTURE
    code = [
        _op(_LOAD, _ARCH),
        _op(_EQUAL, _AUDIT[platform.machine()], 1, 0),
        _refuse(errno.ENOSYS),
        _op(_LOAD, _NUMBER),
    ]
    if platform.machine() == "x86_64":
        code += [_op(_AT_LEAST, _X32_BIT, 0, 1), _refuse(errno.ENOSYS)]
    for numbers in _REFUSED.values():
        if numbers[column] >= 0:
            code += [_op(_EQUAL, numbers[column], 0, 1), _refuse(errno.EPERM)]
    code += [_op(_EQUAL, _CLONE3[column], 0, 1), _refuse(errno.ENOSYS)]  # libc then uses clone, whose flags can be read
    namespaces = [_op(_LOAD, _FIRST), _op(_ANY_BIT, _NAMESPACES, 0, 1), _refuse(errno.EPERM), _op(_RETURN, _ALLOW)]
    code += _only_for(_CLONE[column], namespaces)
    code += _only_for(_SOCKET[column], _families(sockets))
    if sockets is not Sockets.OF_ITS_NETWORK:
        pairs = [_op(_LOAD, _SECOND), _op(_AND, _TYPE_BITS), _op(_EQUAL, _STREAM, 1, 0), _refuse(errno.EACCES)]
        code += _only_for(_SOCKETPAIR[column], [*pairs, _op(_RETURN, _ALLOW)])
    code.append(_op(_RETURN, _ALLOW))
    return b"".join(code)


def _families(sockets: Sockets) -> list[bytes]:
    match sockets:
        case Sockets.OF_ITS_NETWORK:
            allowed: tuple[int, ...] = (_UNIX, _INET, _INET6, _NETLINK)
        case Sockets.UNIX:
            allowed = (_UNIX,)
        case Sockets.NONE:
            allowed = ()
    code = [_op(_LOAD, _FIRST)]
    for family in allowed:
        code += [_op(_EQUAL, family, 0, 1), _op(_RETURN, _ALLOW)]
    return [*code, _refuse(errno.EACCES)]


def _only_for(number: int, code: list[bytes]) -> list[bytes]:
    """Run `code`, which ends with a return, for one system call only, and leave it out for others.
    The accumulator must hold the call's number; it still does where `code` was left out."""
    return [_op(_EQUAL, number, 0, len(code)), *code]


def _op(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _refuse(error: int) -> bytes:
    return _op(_RETURN, _ERRNO | error)

