"""A process's own list of what it may read and write, for machines without mount namespaces.

Source: Linux 5.13, Documentation/userspace-api/landlock.rst.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import stat
import struct
from collections.abc import Iterable

from rpc_server.isolation.kernel import PR_SET_NO_NEW_PRIVS, call, prctl

_CREATE, _ADD, _RESTRICT = 444, 445, 446  # the same on every machine
_ASK_VERSION = 1
_PATH_BENEATH = 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_FOLDER = 1, 2, 4, 8
_TRUNCATE, _DEVICE_CONTROL = 1 << 14, 1 << 15
_RIGHTS_OF_VERSION = (0, 13, 14, 15, 15, 16, 16)  # how many bits are known
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _DEVICE_CONTROL
_NO_TCP = 3  # bind and connect, from version 4 on
_SCOPED = 3  # abstract Unix sockets and signals, from version 6 on


def version() -> int:
    """Which version the kernel has; 0: none."""
    try:
        return call(_CREATE, 0, 0, _ASK_VERSION)
    except OSError:
        return 0


def restrict(readable: Iterable[str], writable: Iterable[str]) -> None:
    """Limit this thread, and all it starts, to these trees. Raises OSError where the kernel cannot."""
    known = version()
    if not known:
        raise OSError(0, "this kernel has no Landlock")
    rights = (1 << _RIGHTS_OF_VERSION[min(known, len(_RIGHTS_OF_VERSION) - 1)]) - 1
    attributes = struct.pack("=QQQ", rights, _NO_TCP if known >= 4 else 0, _SCOPED if known >= 6 else 0)
    attributes = attributes[: 8 if known < 4 else 16 if known < 6 else 24]
    rules = call(_CREATE, attributes, len(attributes), 0)
    try:
        for path in readable:
            _allow(rules, path, rights & (_EXECUTE | _READ_FILE | _READ_FOLDER))
        for path in writable:
            _allow(rules, path, rights)
        prctl(PR_SET_NO_NEW_PRIVS, 1)
        call(_RESTRICT, rules, 0)
    finally:
        os.close(rules)


def _allow(rules: int, path: str, rights: int) -> None:
    with contextlib.suppress(FileNotFoundError, PermissionError):
        beneath = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            if not stat.S_ISDIR(os.fstat(beneath).st_mode):
                rights &= _OF_FILES
            rule = ctypes.create_string_buffer(struct.pack("=Qi", rights, beneath))
            call(_ADD, rules, _PATH_BENEATH, rule, 0)
        finally:
            os.close(beneath)
