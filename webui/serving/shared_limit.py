"""Counts that several processes share in a file: wrong tokens, connections and live streams."""

from __future__ import annotations

import fcntl
import hashlib
import mmap
import os
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from webui.access import MOST_FAILURES, WINDOW_S

_SLOTS = 4096
_KEY = 16
_SLOT = struct.Struct(f"{_KEY}s{MOST_FAILURES}d")
_HEAD = 32
"""Before the slots: a key of this file's, so that nobody can choose addresses that share one."""
_COUNT = struct.Struct("I")
_ROW = _SLOTS + 1  # counts by slot, and their sum


class SharedLimit:
    """A limit like `webui.access.FailureLimit`, over a file that `prepare` made.

    An address has a slot, which another address that shares it takes over when it fails.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._map = mmap.mmap(file.fileno(), _HEAD + _SLOTS * _SLOT.size)

    @staticmethod
    def prepare(file: IO[bytes]) -> None:
        file.write(os.urandom(_HEAD))
        file.truncate(_HEAD + _SLOTS * _SLOT.size)
        file.flush()

    def failed(self, address: str) -> None:
        key, at = self._place(address)
        with self._locked(at):
            held, *times = _SLOT.unpack_from(self._map, at)
            kept = sorted(times)[1:] if held == key else [0.0] * (MOST_FAILURES - 1)
            _SLOT.pack_into(self._map, at, key, *kept, time.monotonic())

    def wait_s(self, address: str) -> float:
        """How long the address has to wait; 0 when it does not."""
        key, at = self._place(address)
        with self._locked(at):
            held, *times = _SLOT.unpack_from(self._map, at)
        if held != key or not min(times):
            return 0.0
        return max(0.0, float(min(times)) + WINDOW_S - time.monotonic())

    def _place(self, address: str) -> tuple[bytes, int]:
        key = hashlib.blake2b(address.encode(), key=self._map[:_HEAD], digest_size=_KEY).digest()
        return key, _HEAD + int.from_bytes(key[:4]) % _SLOTS * _SLOT.size

    @contextmanager
    def _locked(self, at: int) -> Iterator[None]:
        """Against other processes; within one, the event loop's thread alone asks."""
        fcntl.lockf(self._file, fcntl.LOCK_EX, _SLOT.size, at)
        try:
            yield
        finally:
            fcntl.lockf(self._file, fcntl.LOCK_UN, _SLOT.size, at)


class SharedCounts:
    """`webui.serving.limits.Counts` of `workers` processes, over a file that `prepare` made.

    Clients that share a slot count as one. Each process writes a row of its own, and clears it when it starts, so that
    what a dead process had is forgotten.
    """

    def __init__(self, file: IO[bytes], workers: int, number: int) -> None:
        self._map = mmap.mmap(file.fileno(), _HEAD + workers * _ROW * _COUNT.size)
        self._workers = workers
        self._row = _HEAD + number * _ROW * _COUNT.size
        self._map[self._row : self._row + _ROW * _COUNT.size] = bytes(_ROW * _COUNT.size)

    @staticmethod
    def prepare(file: IO[bytes], workers: int) -> None:
        file.write(os.urandom(_HEAD))
        file.truncate(_HEAD + workers * _ROW * _COUNT.size)
        file.flush()

    def add(self, client: str) -> tuple[int, int]:
        slot = self._change(client, 1)
        return self._sum(slot), self._sum(_SLOTS)

    def remove(self, client: str) -> None:
        self._change(client, -1)

    def _change(self, client: str, by: int) -> int:
        key = hashlib.blake2b(client.encode(), key=self._map[:_HEAD], digest_size=_KEY).digest()
        slot = int.from_bytes(key[:4]) % _SLOTS
        for place in (slot, _SLOTS):
            at = self._row + place * _COUNT.size
            (count,) = _COUNT.unpack_from(self._map, at)
            _COUNT.pack_into(self._map, at, count + by)
        return slot

    def _sum(self, place: int) -> int:
        ats = (_HEAD + (row * _ROW + place) * _COUNT.size for row in range(self._workers))
        return sum(_COUNT.unpack_from(self._map, at)[0] for at in ats)
