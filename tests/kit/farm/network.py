"""A network namespace of its own for one end of a test, where this user may make one."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

import pytest


@dataclass(frozen=True)
class OtherNetwork:
    """`interface` is this side's end of the pair; the addresses are those of both ends."""

    name: str
    interface: str
    here: str
    there: str

    @property
    def inside(self) -> list[str]:
        """Before a command: run it there."""
        return ["ip", "netns", "exec", self.name]


@contextlib.contextmanager
def other_network() -> Iterator[OtherNetwork]:
    """Skips the test where there cannot be one."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("only root can make a network namespace, with the ip command")
    name = f"tf{os.getpid() % 100_000}"
    net = f"10.{random.randrange(200, 250)}.{random.randrange(250)}"
    steps = [
        f"netns add {name}",
        f"link add {name}a type veth peer name {name}b netns {name}",
        f"addr add {net}.1/30 dev {name}a",
        f"link set {name}a up",
        f"-n {name} addr add {net}.2/30 dev {name}b",
        f"-n {name} link set {name}b up",
        f"-n {name} link set lo up",
    ]
    try:
        for step in steps:
            done = subprocess.run(["ip", *step.split()], capture_output=True, text=True)
            if done.returncode:
                pytest.skip(f"no network namespace can be made here: ip {step}: {done.stderr.strip()}")
        yield OtherNetwork(name, f"{name}a", f"{net}.1", f"{net}.2")
    finally:
        subprocess.run(["ip", "link", "del", f"{name}a"], capture_output=True)
        subprocess.run(["ip", "netns", "del", name], capture_output=True)
