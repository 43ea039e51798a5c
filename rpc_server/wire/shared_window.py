"""Memory that two processes of one machine share for the big frames of their messages (see stream.py).

Both processes copy a chunk in and out at the same time. Otherwise it goes into the kernel's buffers, out of them and
to its place. The same few pages serve every chunk, so none has to be cleared first.

Either side may be hostile to the other. The memory's size is sealed, so nobody's access can fail, and what a message
says of it is checked. Only the bytes of a frame can change after the check. So only frames that are passed on
unread, such as parts of arrays, may come this way.

Layout: a page of flags, one byte for each slot; the slots of the maker; those of the other side. A slot is written
by its side, which sets its flag. The other side clears the flag when nobody there looks at the bytes any more.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import weakref
from functools import partial

from rpc_server.errors import ProtocolError
from rpc_server.wire.codec import Buffer

SLOT = 2 << 20  # a chunk of an array
SLOTS = 8
"""Of each side; where one has none left, frames go through the socket."""
WINDOW_SIZE = mmap.PAGESIZE + 2 * SLOTS * SLOT
_Slot = ctypes.c_ubyte * SLOT
_INACCESSIBLE = 0
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


def make_window_memory() -> int:
    """A descriptor of fresh memory for two `SharedWindow`s.
    It takes pages only as slots are used. Raises OSError."""
    fd = os.memfd_create("tunefarm-window", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(fd, WINDOW_SIZE)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
    except OSError:
        os.close(fd)
        raise
    return fd


def reserve_addresses() -> mmap.mmap:
    """Address space for a window that is mapped later, when it is limited: close this just before."""
    return mmap.mmap(-1, WINDOW_SIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=_INACCESSIBLE)


class SharedWindow:
    """One side's view: `made` by it, or given to it. Closes no descriptor.

    Raises OSError when it cannot be mapped, and ProtocolError when it is not what `make_window_memory` makes.
    """

    def __init__(self, fd: int, *, made: bool) -> None:
        self._memory = mmap.mmap(fd, _checked_size(fd))
        self._bytes = memoryview(self._memory)
        self._ours = range(SLOTS) if made else range(SLOTS, 2 * SLOTS)
        self._theirs = range(SLOTS, 2 * SLOTS) if made else range(SLOTS)
        self._looked_at: dict[int, weakref.ref[ctypes.Array[ctypes.c_ubyte]]] = {}
        self._pid = os.getpid()

    def put(self, data: Buffer) -> int | None:
        """Copy bytes, of a slot's size at most, for the other side.

        Returns the slot to tell it, or None when all are in use. The first that is free is taken: its memory is the
        likeliest to be in a cache.
        """
        for slot in self._ours:
            if not self._bytes[slot]:
                self._bytes[slot] = 1
                start = _start(slot)
                self._bytes[start : start + len(data)] = data
                return slot
        return None

    def take(self, slot: int, size: int) -> memoryview:
        """Return what the other side put there.

        Its slot is free again when the last view of the bytes is gone. Raises ProtocolError for what cannot be so.
        """
        if slot not in self._theirs or size > SLOT or slot in self._looked_at:
            raise ProtocolError(f"{size} bytes in slot {slot} of the shared memory: there is no such frame")
        # A memoryview tells nobody of its end, and neither do views made from it; what it is a view of does.
        holder = _Slot.from_buffer(self._memory, _start(slot))
        self._looked_at[slot] = weakref.ref(holder, partial(self._give_back, slot))
        return memoryview(holder).cast("B")[:size]

    def _give_back(self, slot: int, _: object) -> None:
        """Called by the garbage collector, at any point of any thread. In a fork it does nothing."""
        if os.getpid() == self._pid:
            self._looked_at.pop(slot, None)
            self._bytes[slot] = 0


def _checked_size(fd: int) -> int:
    try:
        sealed = fcntl.fcntl(fd, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK
    except OSError:
        sealed = 0
    if not sealed or os.fstat(fd).st_size != WINDOW_SIZE:
        raise ProtocolError("shared memory of another size, or that could change its size")
    return WINDOW_SIZE


def _start(slot: int) -> int:
    return mmap.PAGESIZE + slot * SLOT
