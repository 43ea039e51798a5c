"""The ports that tests restart services at."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.places import ROOT
from tests.kit.ports import free_port, free_ports


def test_a_port_is_given_once_and_outside_of_the_kernels_range():
    low, high = (int(word) for word in Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    given = [free_port() for _ in range(20)]
    assert len(set(given)) == 20
    if low > 11_000 or high < 64_000:
        assert not [port for port in given if low <= port <= high]


def test_successive_ones():
    """One in between that is in use is none of them."""
    first = free_ports(3)
    alone = free_port()
    assert alone not in range(first, first + 3)
    again = free_ports(30)
    assert not {first, alone} & set(range(again, again + 30))
    for port in range(again, again + 30):
        socket.create_server(("127.0.0.1", port)).close()


def test_another_process_is_given_others(monkeypatch):
    """Even if it begins to look at the same one."""
    monkeypatch.setattr("os.getpid", lambda: 1)
    code = "import os; os.getpid = lambda: 1; from tests.kit.ports import *; print(*[free_port() for _ in range(5)])"
    ours = {free_port() for _ in range(5)}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert not ours & {int(word) for word in done.stdout.split()}


def test_a_port_in_use_is_passed_over(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        monkeypatch.setattr("tests.kit.ports._outside", lambda: [listener.getsockname()[1]])
        with pytest.raises(AssertionError, match="is taken"):
            free_port()
