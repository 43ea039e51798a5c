"""How files of ours begin: magic bytes, a format version, and a manifest with its length and sha256.

Little endian: 8 bytes magic, u32 version, u32 length of the manifest, 32 bytes sha256 of it, the manifest (JSON).
Reading trusts nothing: each is checked before the next is looked at.
"""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import msgspec

from compiler.errors import ArtifactError

_HEADER = struct.Struct("<8sII32s")


class Manifest(Protocol):
    """The field of every manifest: the format it is written in."""

    @property
    def format(self) -> int: ...


M = TypeVar("M", bound=Manifest)


@dataclass(frozen=True, slots=True)
class Framing:
    """One kind of file. `what` and `article` name it in errors; a manifest has at most `most_bytes`."""

    what: str
    article: str
    magic: bytes
    version: int
    most_bytes: int

    def begin(self, manifest: dict[str, Any]) -> bytes:
        """The header and the manifest, in canonical JSON.
        Raises ArtifactError for a manifest that is too long."""
        text = json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode("ascii")
        if len(text) > self.most_bytes:
            raise ArtifactError(f"the manifest takes {len(text):,} bytes, more than {self.most_bytes:,}")
        return _HEADER.pack(self.magic, self.version, len(text), hashlib.sha256(text).digest()) + text

    def read(self, view: memoryview, decoder: msgspec.json.Decoder[M]) -> tuple[M, int]:
        """The manifest, and where it ends. Raises ArtifactError for anything but such a beginning."""
        if len(view) < _HEADER.size:
            raise ArtifactError(f"{len(view)} bytes are too few for {self.article} {self.what}")
        magic, version, length, digest = _HEADER.unpack_from(view)
        if magic != self.magic:
            hint = f"the first 8 bytes must be {self.magic.decode()}"
            raise ArtifactError(f"these bytes are no tunefarm {self.what}", hint=hint)
        if version != self.version:
            raise ArtifactError(
                f"the {self.what} has format version {version}; this tunefarm reads version {self.version}",
                hint="build it again with `tunefarm build`, or use the same tunefarm version on both sides",
            )
        end = _HEADER.size + length
        if length > self.most_bytes or end > len(view):
            raise ArtifactError(f"the {self.what} is cut short or damaged: its manifest claims {length} bytes")
        text = bytes(view[_HEADER.size : end])
        if hashlib.sha256(text).digest() != digest:
            raise ArtifactError(f"the {self.what} is damaged: its manifest does not match its sha256")
        try:
            manifest = decoder.decode(text)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise ArtifactError(f"the {self.what}'s manifest is not valid: {error}") from None
        if manifest.format != version:
            raise ArtifactError(f"the {self.what}'s manifest says format {manifest.format}, its header {version}")
        return manifest, end
