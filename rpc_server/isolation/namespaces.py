"""Namespaces for an executor: mounts, processes, IPC and network of its own (Linux, namespaces(7))."""

from __future__ import annotations

import os

from rpc_server.isolation.kernel import NEW_IPC, NEW_MOUNTS, NEW_NETWORK, NEW_PIDS, NEW_USER, unshare


def separate() -> None:
    """Leave the machine's mounts, network and IPC, and have children be in a PID namespace.

    Raises OSError. One that is not root does it in a user namespace, where it keeps its number.
    """
    kinds = NEW_MOUNTS | NEW_IPC | NEW_PIDS | NEW_NETWORK
    uid, gid = os.geteuid(), os.getegid()
    if not uid:
        unshare(kinds)
        return
    unshare(NEW_USER | kinds)
    for name, words in {"setgroups": "deny", "uid_map": f"{uid} {uid} 1", "gid_map": f"{gid} {gid} 1"}.items():
        with open(f"/proc/self/{name}", "wb") as file:
            file.write(words.encode())
