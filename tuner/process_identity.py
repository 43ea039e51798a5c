"""This process, by a name that says whether it still lives."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path

from rpc_server.machine.user_name import user_at_host

_NAME = re.compile(r"(?P<who>.*) \[(?P<place>[0-9a-f]+-\d+), pid (?P<pid>\d+), begun (?P<begun>\d+)\]")


@lru_cache(maxsize=1)
def process_name() -> str:
    """`user@host [place, pid n, begun t]`, unlike that of any other process, also in other containers."""
    _, begun = _state("self")
    return f"{user_at_host()} [{_place()}, pid {os.getpid()}, begun {begun}]"


def is_gone(name: str) -> bool:
    """Whether the process of that name is known to have ended. False if it cannot be seen from here."""
    found = _NAME.fullmatch(name)
    if found is None or found["place"] != _place():
        return False
    try:
        state, begun = _state(found["pid"])
    except FileNotFoundError:
        return True
    return state == "Z" or begun != int(found["begun"])


def _state(pid: str) -> tuple[str, int]:
    """A process's state and when it began, in clock ticks since boot. Raises FileNotFoundError."""
    fields = Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()
    return fields[0], int(fields[19])


@lru_cache(maxsize=1)
def _place() -> str:
    """The scope in which process numbers mean the same.
    It is this boot of this machine and this namespace of processes."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().replace("-", "")[:12]
    return f"{boot}-{os.stat('/proc/self/ns/pid').st_ino}"
