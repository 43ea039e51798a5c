"""The blobs a box keeps: files named by their sha256 in one private folder, oldest use dropped first.

A blob arrives in chunks, in order, into a partial file of its sender's; it gets its name only when its bytes
have the digest they were announced with.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import re
from collections import Counter, OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rpc_server.errors import ProtocolError, RPCError
from rpc_server.wire.codec import Buffer

_DIGEST = re.compile(r"[0-9a-f]{64}")
_MOST_SEEN = 65_536
_MOST_VIEWS = 4096


class BlobError(RPCError, kind="blob"):
    """A blob that cannot be stored: too big, its bytes do not match its digest, the disk is full."""


def blob_digest(data: Buffer) -> str:
    """The name of a blob: sha256 of its bytes, in hex."""
    return hashlib.sha256(data).hexdigest()


@dataclass(slots=True)
class _Partial:
    path: Path
    size: int
    written: int
    hash: hashlib._Hash


class BlobStore:
    """A store of blobs in `folder`.

    `capacity` bounds the bytes kept there, including those of unfinished uploads. One blob may take at most half of
    it, and so may all unfinished ones of an owner. Uploads belong to an `owner` (a connection), which may have a few
    under way at once. A blob exists only for a `view` (a key, or a connection without keys) that has uploaded it,
    because its digest alone proves nothing. Another view has to send all of it, and then shares the file. Neither
    answers nor their times reveal that the blob was here.
    """

    def __init__(self, folder: Path, capacity: int = 1 << 30, max_partial: int = 8) -> None:
        self._folder = folder
        self._capacity = capacity
        self._max_partial = max_partial
        self._sizes: OrderedDict[str, int] = OrderedDict()
        self._used = 0
        self._partial: dict[tuple[bytes, str], _Partial] = {}
        self._begun: Counter[bytes] = Counter()  # bytes of unfinished uploads by owner
        self._serial = 0
        self._views: OrderedDict[bytes, OrderedDict[str, None]] = OrderedDict()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def has(self, view: bytes, digest: str) -> bool:
        return digest in self._sizes and digest in self._views.get(view, ())

    @property
    def used(self) -> int:
        return self._used

    def missing(self, view: bytes, digests: Iterable[str]) -> tuple[str, ...]:
        """Those not here for a view. The others count as used just now."""
        absent = []
        for digest in digests:
            if self.has(view, digest):
                self._sizes.move_to_end(digest)
            else:
                absent.append(digest)
        return tuple(absent)

    def put(self, owner: bytes, view: bytes, digest: str, size: int, offset: int, chunk: Buffer) -> bool:
        """Take the next chunk of a blob; True once the blob is complete (also when the view had it already).

        Raises ProtocolError for a chunk out of order and BlobError when the blob cannot be kept.
        """
        if not _DIGEST.fullmatch(digest) or offset < 0 or size < 0 or offset + len(chunk) > size:
            raise ProtocolError(f"a chunk at {offset} of {len(chunk)} bytes does not fit blob {digest[:80]!r}")
        if self.has(view, digest):
            self._sizes.move_to_end(digest)
            return True
        if size > self._capacity // 2:
            raise BlobError(f"a blob of {size} bytes is over this box's limit of {self._capacity // 2}")
        key = (owner, digest)
        partial = self._partial.get(key)
        if offset == 0:
            self._drop(key)
            partial = self._begin(key, size)
        if partial is None or partial.written != offset or partial.size != size:
            self._drop(key)
            raise ProtocolError(f"chunk at {offset} of blob {digest[:12]} is out of order")
        self._make_room(key, len(chunk))
        try:
            with open(partial.path, "ab") as file:
                file.write(chunk)
        except OSError as error:
            self._drop(key)
            raise BlobError(f"the box cannot store blob {digest[:12]}: {error.strerror}") from None
        partial.hash.update(chunk)
        partial.written += len(chunk)
        self._begun[owner] += len(chunk)
        if partial.written < size:
            return False
        self._finish(key, partial)
        self._show(view, digest)
        return True

    def _show(self, view: bytes, digest: str) -> None:
        seen = self._views.setdefault(view, OrderedDict())
        seen[digest] = None
        if len(seen) > _MOST_SEEN:
            seen.popitem(last=False)
        self._views.move_to_end(view)
        if len(self._views) > _MOST_VIEWS:
            self._views.popitem(last=False)

    def read(self, view: bytes, digest: str) -> Buffer | None:
        """The bytes of a blob that a view has, mapped rather than read, or None."""
        if not self.has(view, digest):
            return None
        size = self._sizes[digest]
        self._sizes.move_to_end(digest)
        if size == 0:
            return b""
        try:
            with open(self._folder / digest, "rb") as file:
                return memoryview(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ))
        except (OSError, ValueError):  # somebody tidied the folder up: as if it had never come
            self._used -= self._sizes.pop(digest)
            return None

    def forget_owner(self, owner: bytes) -> None:
        """Drop what `owner` had begun to upload, and its view if it is one."""
        self._views.pop(owner, None)
        for key in [key for key in self._partial if key[0] == owner]:
            self._drop(key)

    def _make_room(self, key: tuple[bytes, str], more: int) -> None:
        """Make room for `more` bytes of an upload.
        The blobs used longest ago are dropped first, then uploads of whoever has most under way.

        Raises BlobError, and drops this upload, when that is its own sender, or its sender has too much under way.
        """
        owner = key[0]
        if self._begun[owner] + more > self._capacity // 2:
            self._drop(key)
            raise BlobError(f"more than {self._capacity // 2} bytes of unfinished blobs from one client")
        while self._used + self._begun.total() + more > self._capacity:
            if self._sizes:
                self._remove_oldest()
                continue
            greatest = max(self._begun, key=self._begun.__getitem__)
            if greatest == owner:
                self._drop(key)
                raise BlobError("the box has no room for this blob: others are being uploaded", hint="try again")
            self._drop(max((k for k in self._partial if k[0] == greatest), key=lambda k: self._partial[k].written))

    def _remove_oldest(self) -> None:
        oldest, size = self._sizes.popitem(last=False)
        (self._folder / oldest).unlink(missing_ok=True)
        self._used -= size

    def _begin(self, key: tuple[bytes, str], size: int) -> _Partial:
        if sum(owner == key[0] for owner, _ in self._partial) >= self._max_partial:
            raise ProtocolError(f"more than {self._max_partial} blobs under way from one client")
        self._serial += 1
        partial = _Partial(self._folder / f"partial-{self._serial}", size, 0, hashlib.sha256())
        self._partial[key] = partial
        return partial

    def _drop(self, key: tuple[bytes, str]) -> None:
        partial = self._partial.pop(key, None)
        if partial is not None:
            self._not_begun(key[0], partial)
            partial.path.unlink(missing_ok=True)

    def _not_begun(self, owner: bytes, partial: _Partial) -> None:
        self._begun[owner] -= partial.written
        if not self._begun[owner]:
            del self._begun[owner]

    def _finish(self, key: tuple[bytes, str], partial: _Partial) -> None:
        digest = key[1]
        if partial.hash.hexdigest() != digest:
            self._drop(key)
            raise BlobError(f"the bytes sent for blob {digest[:12]} have another sha256")
        if digest in self._sizes:  # another view's: one file is enough
            self._drop(key)
            self._sizes.move_to_end(digest)
            return
        self._not_begun(key[0], partial)
        del self._partial[key]
        os.replace(partial.path, self._folder / digest)
        self._sizes[digest] = partial.size
        self._used += partial.size
