"""The isolation level that a box promises, and when it refuses to start: the decision, without a kernel."""

import struct

import pytest

from rpc_server.errors import ServerStartError
from rpc_server.isolation.levels import Level, Means, choose
from rpc_server.isolation.syscall_filter import Sockets, program

ALL = Means()
NO_NAMESPACES = Means(no_namespaces="Operation not permitted")
LITTLE = Means(no_namespaces="Operation not permitted", filters=False, landlock=0)
CLOSED = Means(no_namespaces="Operation not permitted", no_user="other users cannot enter /root")


@pytest.mark.parametrize(
    ("wanted", "user", "means", "root", "reachable", "level"),
    [
        ("auto", "each", ALL, True, True, Level.FULL),
        ("auto", "each", ALL, False, True, Level.FULL),
        ("auto", "each", NO_NAMESPACES, True, False, Level.PARTIAL),
        ("auto", "each", NO_NAMESPACES, False, False, Level.PARTIAL),
        ("partial", "nobody", NO_NAMESPACES, True, True, Level.PARTIAL),
        ("none", "each", ALL, True, True, Level.NONE),
        ("auto", "root", ALL, True, False, Level.NONE),
        ("none", "root", CLOSED, True, True, Level.NONE),
        ("auto", "root", ALL, True, True, Level.NONE),
    ],
)
def test_what_it_gets(wanted, user, means, root, reachable, level):
    assert choose(wanted, user, means, root=root, reachable=reachable).level is level


@pytest.mark.parametrize(
    ("wanted", "user", "means", "root", "reachable", "words"),
    [
        ("full", "each", NO_NAMESPACES, True, False, "cannot be fully isolated here: Operation not permitted"),
        ("auto", "each", NO_NAMESPACES, True, True, "would not be isolated from each other"),
        ("auto", "each", LITTLE, False, True, "would not be isolated from each other"),
        ("auto", "each", CLOSED, True, False, "kernels would run as root: other users cannot enter /root"),
        ("none", "nobody", CLOSED, True, False, "kernels would run as root"),
        ("full", "root", ALL, True, False, "kernels that run as root are not isolated"),
        ("partial", "root", ALL, True, False, "kernels that run as root are not isolated"),
    ],
)
def test_when_it_does_not_start(wanted, user, means, root, reachable, words):
    with pytest.raises(ServerStartError, match=words) as caught:
        choose(wanted, user, means, root=root, reachable=reachable)
    assert "--" in caught.value.hint


def test_it_says_what_is_open():
    assert choose("auto", "each", ALL, root=True, reachable=True).is_open == ()
    little = choose("partial", "each", LITTLE, root=False, reachable=True)
    assert "no network" in little.is_open
    assert "Not kept apart" in str(little)


@pytest.mark.parametrize("sockets", Sockets)
def test_filters_are_programs(sockets):
    """Every jump leads to an instruction, and the last one returns."""
    code = [struct.unpack_from("=HBBI", program(sockets), at) for at in range(0, len(program(sockets)), 8)]
    for at, (operation, if_true, if_false, _) in enumerate(code):
        if operation & 7 == 5:
            assert at + 1 + max(if_true, if_false) < len(code)
    assert code[-1][0] == 6
