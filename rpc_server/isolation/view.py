"""An executor's view of the machine.

A root of its own with the installation in it, read-only, and a folder.
"""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from rpc_server.isolation.kernel import (
    BIND,
    NO_DEVICES,
    NO_EXEC,
    NO_SUID,
    PRIVATE,
    READ_ONLY,
    RECURSIVE,
    REMOUNT,
    mount,
    pivot_root,
    read_only_tree,
)

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_SETTINGS = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "passwd", "group", "nsswitch.conf", "localtime",
             "alternatives", "OpenCL", "nvidia")  # fmt: skip
_DEVICES = ("null", "zero", "full", "random", "urandom")
_GPU_DEVICES = ("/dev/nvidia*", "/dev/nv[hms]*", "/dev/dxg")
_GPU_SERVICES = ("/run/nvidia-persistenced", "/run/nvidia-fabricmanager")
_SOURCE = Path(__file__).resolve().parents[2]
_PACKAGES = ("compiler", "rpc_server", "tracker", "tuner", "tunefarm", "webui")


def installation() -> list[str]:
    """Return folders and files that processes of ours read.

    They are the system's programs and libraries, Python, our packages. A checkout is not among them as a whole: records
    and keys may lie beside the packages.
    """
    found = [*_SYSTEM, *(f"/etc/{name}" for name in _SETTINGS)]
    found += [sys.prefix, sys.base_prefix, sys.exec_prefix]
    checkout = (_SOURCE / "pyproject.toml").exists()
    whole = [entry for entry in sys.path if checkout and _SOURCE.is_relative_to(os.path.realpath(entry))]
    found += [entry for entry in sys.path if entry and entry not in whole]
    found += [str(_SOURCE / name) for name in _PACKAGES]
    return _outermost(path for path in found if path != "/" and os.path.isabs(path) and os.path.exists(path))


def gpu_paths() -> list[str]:
    """Devices and services that CUDA talks to."""
    return [path for pattern in (*_GPU_DEVICES, *_GPU_SERVICES) for path in sorted(glob.glob(pattern))]


def enter(folder: str, scratch: int, libraries: Iterable[str], *, gpu: bool) -> None:
    """Give this mount namespace, and every process in it, a root that has no more than is needed.

    Writable are `folder`, under its own name, and /tmp and /dev/shm of `scratch` bytes each. Call it as the first
    process of a PID namespace. Raises OSError.
    """
    mount("", "/", "", RECURSIVE | PRIVATE)
    own = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    mount("tmpfs", folder, "tmpfs", NO_SUID | NO_DEVICES, "size=1m,nr_inodes=4096,mode=0755")
    root = folder
    _scratch(f"{root}/tmp", scratch)  # before what is shown: an installation may lie in /tmp
    bound = _outermost([*installation(), *(os.path.abspath(library) for library in libraries if "/" in library)])
    for path in sorted(bound, key=os.path.islink):  # what links lead to is there already
        _show(root, path)
    os.makedirs(f"{root}/proc")
    mount("proc", f"{root}/proc", "proc", NO_SUID | NO_DEVICES | NO_EXEC)
    _show(root, "/sys")
    _make_devices(root, scratch)
    if gpu:
        for path in gpu_paths():
            _bind(path, root + path)
    os.makedirs(f"{root}/var", exist_ok=True)
    if not os.path.lexists(f"{root}/var/tmp"):
        os.symlink("/tmp", f"{root}/var/tmp")
    os.makedirs(root + folder, exist_ok=True)
    mount(f"/proc/self/fd/{own}", root + folder, "", BIND)
    mount("", root + folder, "", REMOUNT | BIND | NO_SUID | NO_DEVICES)
    os.close(own)
    pivot_root(root)
    mount("", "/", "", REMOUNT | BIND | READ_ONLY | NO_SUID | NO_DEVICES)


def _outermost(paths: Iterable[str]) -> list[str]:
    """The paths that lie below no other one, in order."""
    kept: list[str] = []
    for path in sorted({os.path.normpath(path) for path in paths}):
        if not kept or not (path + "/").startswith(kept[-1] + "/"):
            kept.append(path)
    return kept


def _show(root: str, path: str) -> None:
    """Show a tree, or link, at the same path under the new root, read-only."""
    if os.path.islink(path):
        os.makedirs(os.path.dirname(root + path), exist_ok=True)
        os.symlink(os.readlink(path), root + path)
        target = os.path.realpath(path)
        if not os.path.lexists(root + target):
            _show(root, target)
        return
    _bind(path, root + path)
    read_only_tree(root + path)


def _bind(source: str, target: str) -> None:
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "ab"):
            pass
    mount(source, target, "", BIND | RECURSIVE)


def _make_devices(root: str, scratch: int) -> None:
    os.makedirs(f"{root}/dev")
    for name in _DEVICES:
        _bind(f"/dev/{name}", f"{root}/dev/{name}")
    for name, target in {"fd": "", "stdin": "/0", "stdout": "/1", "stderr": "/2"}.items():
        os.symlink(f"/proc/self/fd{target}", f"{root}/dev/{name}")
    _scratch(f"{root}/dev/shm", scratch)


def _scratch(path: str, size: int) -> None:
    os.makedirs(path, exist_ok=True)
    mount("tmpfs", path, "tmpfs", NO_SUID | NO_DEVICES, f"size={size},nr_inodes=16384,mode=1777")
