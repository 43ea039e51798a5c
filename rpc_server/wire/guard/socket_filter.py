"""Have the kernel drop packets of a socket before they are taken in.

Classic BPF programs (SO_ATTACH_FILTER).

ZeroMQ accepts and reads in a thread of its own, as fast as bytes come. It has no option to refuse an address or to
end a message that never ends. A filter needs no privilege and holds however busy this process is. A sender whose
packets are dropped sends them again later, as after a lost packet.

* A listener's filter drops what some addresses send. Connections that are open have sockets of their own and go on.
* A new connection has its listener's filter until it gets its own: it drops big packets.
* A connection's own filter drops what lies beyond a position in its stream of bytes. So the other end can have
  sent no more until the position is moved (`let_in`).
"""

from __future__ import annotations

import ipaddress
import os
import socket
import struct
from array import array
from collections.abc import Collection
from socket import SocketType

MOST = 32
"""Refused addresses at a time: a packet is compared with each, and jumps of a filter reach 255 instructions."""

FIRST_PAYLOAD = 1500
"""Bytes in a packet of a connection that has no filter of its own yet: any handshake, and what Ethernet carries."""

_SO_ATTACH_FILTER = 26
_TCP_SAVE_SYN, _TCP_SAVED_SYN = 27, 28
_INSTRUCTION = struct.Struct("=HBBI")
_PROGRAM = struct.Struct("@HP")
_NETWORK_HEADER = 0xFFF00000  # SKF_NET_OFF; other positions count from the start of the TCP header
_SOURCE = {4: 12, 6: 8}  # where in its header a packet says who sent it
_SEQUENCE, _HEADER_WORDS = 4, 12  # where in a TCP header a packet's number is, and how long the header
_WHOLE = 0xFFFFFFFF
_HALF = 1 << 31
_NUMBERS = 1 << 32


def _load_byte(at: int) -> bytes:
    return _INSTRUCTION.pack(0x30, 0, 0, at)


def _load_word(at: int) -> bytes:
    return _INSTRUCTION.pack(0x20, 0, 0, at)


def _jump(code: int, value: int, yes: int, no: int) -> bytes:
    return _INSTRUCTION.pack(code, yes, no, value)


def _if_equal(value: int, yes: int, no: int) -> bytes:
    return _jump(0x15, value, yes, no)


def _if_greater(value: int, yes: int, no: int) -> bytes:
    return _jump(0x25, value, yes, no)


def _if_any_bit(value: int, yes: int, no: int) -> bytes:
    return _jump(0x45, value, yes, no)


def _subtract(value: int) -> bytes:
    return _INSTRUCTION.pack(0x14, 0, 0, value % _NUMBERS)


def _shift_right(bits: int) -> bytes:
    return _INSTRUCTION.pack(0x74, 0, 0, bits)


def _return(kept: int) -> bytes:
    return _INSTRUCTION.pack(0x06, 0, 0, kept)


_PAYLOAD = (
    _load_byte(_HEADER_WORDS),
    _shift_right(4),
    _INSTRUCTION.pack(0x64, 0, 0, 2),  # from words to bytes
    _INSTRUCTION.pack(0x07, 0, 0, 0),  # to the index register
    _INSTRUCTION.pack(0x80, 0, 0, 0),  # the packet's length
    _INSTRUCTION.pack(0x1C, 0, 0, 0),  # less the header's
)


_CREDIT_BEGIN = b"".join(
    [
        *_PAYLOAD,
        _if_equal(0, 4, 0),  # nothing but an acknowledgement
        _load_word(_SEQUENCE),
    ]
)
_CREDIT_END = _if_any_bit(_HALF, 1, 0) + _return(0) + _return(_WHOLE)  # before it, modulo 2**32


def prepare_listener(sock: SocketType) -> bool:
    """Prepare a socket before it listens, so that `first_number` is known of its connections.
    Big packets wait until the connection has its own filter. False where the kernel cannot."""
    try:
        sock.setsockopt(socket.IPPROTO_TCP, _TCP_SAVE_SYN, 1)
    except OSError:
        return False
    return _attach(sock, listener_program(()))


def refuse_from(listener: int, addresses: Collection[str]) -> bool:
    """Drop what `addresses`, the first MOST of them, send to the listening socket.
    `listener` is its descriptor. What was dropped from others before comes in again. False where the kernel cannot."""
    try:
        sock = socket.socket(fileno=listener)
    except OSError:
        return False
    try:
        return _attach(sock, listener_program(sorted(addresses)[:MOST]))
    finally:
        sock.detach()


def first_number(sock: SocketType) -> int | None:
    """The number that the first byte of an accepted connection has in TCP's headers.
    None where it cannot be known: `prepare_listener` was not called, or the kernel answered the first packet from
    memory (SYN cookies)."""
    try:
        packet = sock.getsockopt(socket.IPPROTO_TCP, _TCP_SAVED_SYN, 512)
    except OSError:
        return None
    if len(packet) < 40:
        return None
    header = 40 if packet[0] >> 4 == 6 else (packet[0] & 15) * 4
    if len(packet) < header + 20:
        return None
    number: int = struct.unpack_from(">I", packet, header + _SEQUENCE)[0]
    return (number + 1) % _NUMBERS


def let_in(sock: SocketType, first: int, size: int) -> bool:
    """Have the kernel accept the first `size` bytes of a connection, and drop packets behind those.
    `first` is its `first_number`. False where the kernel cannot."""
    return _attach(sock, credit_program(first + size))


def credit_program(end: int) -> bytes:
    """A BPF program that drops packets whose first byte has the number `end`, or lies behind it."""
    return _CREDIT_BEGIN + _subtract(end) + _CREDIT_END


def listener_program(addresses: Collection[str]) -> bytes:
    """A BPF program that drops packets from these addresses, and big packets from any.
    Texts that are no addresses are ignored."""
    found = [ipaddress.ip_address(text) for text in map(_numeric, addresses) if text]
    code: list[bytes] = []
    for address in found:
        words = struct.unpack(f">{len(address.packed) // 4}I", address.packed)
        # Of another version: on to the next address. 2 instructions a word follow, and the return.
        code += [_load_byte(_NETWORK_HEADER), _shift_right(4), _if_equal(address.version, 0, 2 * len(words) + 1)]
        for number, word in enumerate(words):
            left = 2 * (len(words) - number - 1) + 1
            code += [_load_word(_NETWORK_HEADER + _SOURCE[address.version] + 4 * number), _if_equal(word, 0, left)]
        code.append(_return(0))
    return b"".join([*code, *_PAYLOAD, _if_greater(FIRST_PAYLOAD, 0, 1), _return(0), _return(_WHOLE)])


def _attach(sock: SocketType, program: bytes) -> bool:
    kept = array("B", program)
    head = _PROGRAM.pack(len(program) // _INSTRUCTION.size, kept.buffer_info()[0])
    try:
        sock.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, head)
    except OSError:
        return False
    return True


def _numeric(text: str) -> str:
    bare = text.partition("%")[0]
    try:
        ipaddress.ip_address(bare)
    except ValueError:
        return ""
    return bare


def handle_on(fd: int) -> SocketType:
    """A socket that owns the descriptor.

    Making a `socket.socket` would take longer than the calls that are made on it. The family is given, as Python would
    ask the kernel for it; IPv6, whose addresses are longest, serves for all.
    """
    return SocketType(socket.AF_INET6, socket.SOCK_STREAM, 0, fd)


def open_again(fd: int, inode: int) -> SocketType | None:
    """Another handle on the socket behind a descriptor, if it still has that inode. The caller closes it."""
    try:
        copy = os.dup(fd)
    except OSError:
        return None
    try:
        if os.fstat(copy).st_ino == inode:
            return handle_on(copy)
    except OSError:
        pass
    os.close(copy)
    return None
