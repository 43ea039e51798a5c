"""Have the kernel drop what some addresses send to a listening socket, so that it accepts no connection of theirs.

ZeroMQ accepts in a thread of its own, as fast as connections come, and has no option to refuse any. A socket filter on
the listener (SO_ATTACH_FILTER, which needs no privilege) looks at the packets that open connections; connections which
are open have sockets of their own and go on. Whoever is dropped tries again after a second, as after a lost packet.
"""

from __future__ import annotations

import ctypes
import ipaddress
import socket
import struct
from collections.abc import Collection

MOST = 32
"""Addresses at a time: a packet is compared with each, and jumps of a filter reach 255 instructions."""

_SO_ATTACH_FILTER, _SO_DETACH_FILTER = 26, 27
_INSTRUCTION = struct.Struct("=HBBI")
_PROGRAM = struct.Struct("@HP")
_LOAD_BYTE, _LOAD_WORD, _SHIFT_RIGHT, _JUMP_IF_EQUAL, _RETURN = 0x30, 0x20, 0x74, 0x15, 0x06
_NETWORK_HEADER = 0xFFF00000  # SKF_NET_OFF
_SOURCE = {4: 12, 6: 8}  # where in its header a packet says who sent it
_WHOLE = 0xFFFFFFFF


def refuse_from(listener: int, addresses: Collection[str]) -> bool:
    """Drop what `addresses`, the first MOST of them, send to the listening socket with descriptor `listener`, and
    nobody else's any more. False where the kernel cannot."""
    program = filter_program(sorted(addresses)[:MOST])
    try:
        sock = socket.socket(fileno=listener)
    except OSError:
        return False
    try:
        if not program:
            sock.setsockopt(socket.SOL_SOCKET, _SO_DETACH_FILTER, 0)
            return True
        kept = ctypes.create_string_buffer(program, len(program))
        head = _PROGRAM.pack(len(program) // _INSTRUCTION.size, ctypes.addressof(kept))
        sock.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, head.ljust(ctypes.sizeof(ctypes.c_void_p) * 2, b"\0"))
    except OSError:
        return not program  # there was none to detach
    finally:
        sock.detach()
    return True


def filter_program(addresses: Collection[str]) -> bytes:
    """A BPF program that drops packets of these addresses; empty for none. What is no address is left out."""
    found = [ipaddress.ip_address(text) for text in map(_numeric, addresses) if text]
    if not found:
        return b""
    code: list[bytes] = []
    for address in found:
        words = struct.unpack(f">{len(address.packed) // 4}I", address.packed)
        # Of another version: on to the next address. 2 instructions a word follow, and the return.
        code += [
            _INSTRUCTION.pack(_LOAD_BYTE, 0, 0, _NETWORK_HEADER),
            _INSTRUCTION.pack(_SHIFT_RIGHT, 0, 0, 4),
            _INSTRUCTION.pack(_JUMP_IF_EQUAL, 0, 2 * len(words) + 1, address.version),
        ]
        for number, word in enumerate(words):
            left = 2 * (len(words) - number - 1) + 1
            code += [
                _INSTRUCTION.pack(_LOAD_WORD, 0, 0, _NETWORK_HEADER + _SOURCE[address.version] + 4 * number),
                _INSTRUCTION.pack(_JUMP_IF_EQUAL, 0, left, word),
            ]
        code.append(_INSTRUCTION.pack(_RETURN, 0, 0, 0))
    return b"".join([*code, _INSTRUCTION.pack(_RETURN, 0, 0, _WHOLE)])


def _numeric(text: str) -> str:
    bare = text.partition("%")[0]
    try:
        ipaddress.ip_address(bare)
    except ValueError:
        return ""
    return bare
