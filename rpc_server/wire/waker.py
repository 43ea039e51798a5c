"""Waking a loop that waits for descriptors, from another thread, a finalizer or a signal handler."""

from __future__ import annotations

import contextlib
import os


class Waker:
    """A descriptor, `fd`, that can be read once somebody has called `wake`, until `clear`.

    It takes no lock. The descriptor is closed with the last reference to the object, so a late `wake` never writes
    into a descriptor that has become another's.
    """

    __slots__ = ("fd",)

    def __init__(self) -> None:
        self.fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def wake(self) -> None:
        """Harmless when it was woken before, and once its loop has ended."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_write(self.fd, 1)

    def clear(self) -> None:
        """Harmless when nobody has woken it."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self.fd)

    def __del__(self) -> None:
        os.close(self.fd)
