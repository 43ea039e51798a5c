"""The kernel's facts about connections by their descriptors, and about this process's memory."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import sys
import termios

import zmq

from rpc_server.wire.guard.socket_filter import handle_on

_TCP_INFO_SIZE = 136
_BYTES = struct.Struct("=QQ")  # tcpi_bytes_acked, tcpi_bytes_received
_BYTES_AT = 120
_PAGE = os.sysconf("SC_PAGE_SIZE")


def last_given_id(sock: zmq.Socket[bytes]) -> int | None:
    """The number of the last id that a ROUTER has given out: it gives one to a connection of our own."""
    address = f"inproc://tunefarm-first-id-{id(sock)}-{os.getpid()}"
    sock.bind(address)
    with sock.context.socket(zmq.DEALER) as own:
        own.setsockopt(zmq.LINGER, 0)
        own.connect(address)
        own.send(b"")
        if not sock.poll(10_000):
            return None
        given = sock.recv_multipart()[0]
    sock.unbind(address)
    return int.from_bytes(given[1:], "big") if len(given) == 5 and not given[0] else None


def identify(fd: int) -> tuple[int, str] | None:
    """The inode of a connection's socket, and the address of its other end; None when it is gone."""
    try:
        sock = handle_on(os.dup(fd))
    except OSError:
        return None
    try:
        address = sock.getpeername()
        host = str(address[0]) if isinstance(address, tuple) else "this machine"
        return os.fstat(sock.fileno()).st_ino, host.removeprefix("::ffff:")
    except OSError:
        return None
    finally:
        sock.close()


def bytes_of(fd: int) -> tuple[int, int] | None:
    """Return the bytes that the other end has acknowledged, and those that came from it.
    None where that cannot be known."""
    try:
        sock = handle_on(fd)
    except OSError:
        return None
    try:
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_SIZE)
    except OSError:
        return None
    finally:
        sock.detach()
    return _BYTES.unpack_from(info, _BYTES_AT) if len(info) >= _TCP_INFO_SIZE else None


def waiting_in_kernel(fd: int) -> int:
    """Bytes that came and that libzmq has not read yet."""
    answer = bytearray(4)
    try:
        fcntl.ioctl(fd, termios.FIONREAD, answer)
    except OSError:
        return 0
    return int.from_bytes(answer, sys.byteorder)


def resident_bytes() -> int:
    fd = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return int(os.read(fd, 256).split()[1]) * _PAGE
    finally:
        os.close(fd)
