"""A release as one file: JSON, with the digest of what it holds as a checksum. Pure.

The checksum finds what was damaged or changed by mistake. It proves nothing about who made the file.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from tuner.records.errors import InvalidRecord
from tuner.records.farm.model_farm import Release, ReleaseDiff, ReleaseEntry

FORMAT = "tunefarm.release"
VERSION = 1

_FIELDS = tuple(ReleaseEntry.__dataclass_fields__)
_TEXTS = ("workload_key", "workload_name", "target", "device_class", "toolchain", "digest", "trace", "device")
_NUMBERS = ("cost", "low", "high", "sample_count")


@dataclass(frozen=True)
class ReleaseFile:
    """The content of a release's file: its entries agree with its digest."""

    name: str
    note: str
    digest: str
    created_by: str
    entries: tuple[ReleaseEntry, ...]


def in_order(entries: Iterable[ReleaseEntry]) -> tuple[ReleaseEntry, ...]:
    """Entries the way every release holds them. Raises InvalidRecord when two are of one key."""
    ordered = sorted(entries, key=lambda e: e.key)
    for one, other in pairwise(ordered):
        if one.key == other.key:
            raise InvalidRecord(f"two configs of {one.workload_name} for {one.target!r} on {one.device_class}")
    return tuple(ordered)


def digest(name: str, entries: Sequence[ReleaseEntry]) -> str:
    """sha256 (hex) of a release: its name and every field of its entries."""
    return hashlib.sha256(_canonical({"name": name, "entries": [asdict(e) for e in entries]}).encode()).hexdigest()


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def dump(release: Release, entries: Sequence[ReleaseEntry]) -> str:
    """The file of a release."""
    head = {
        "format": FORMAT,
        "version": VERSION,
        "name": release.name,
        "note": release.note,
        "digest": release.digest,
        "created_by": release.created_by,
        "created_at": release.created_at.isoformat(),
    }
    return json.dumps({**head, "entries": [asdict(e) for e in entries]}, indent=1) + "\n"


def load(text: str) -> ReleaseFile:
    """Read a file.
    Raises InvalidRecord for what is none, and for one that was changed since it was written."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidRecord(f"the file is no release: {error}") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise InvalidRecord("the file is no release", hint="`tunefarm release export` writes one")
    if data.get("version") != VERSION:
        raise InvalidRecord(f"the release file has version {data.get('version')!r}; this tunefarm reads {VERSION}")
    heads = [data.get(name) for name in ("name", "note", "digest", "created_by")]
    entries = data.get("entries")
    if not all(isinstance(value, str) for value in heads) or not isinstance(entries, list):
        raise InvalidRecord("the release file lacks its name, digest or entries")
    name, note, checksum, created_by = (str(value) for value in heads)
    found = in_order(_entry(entry, number) for number, entry in enumerate(entries, 1))
    if digest(name, found) != checksum:
        raise InvalidRecord(
            f"the release file does not agree with its digest {checksum[:12]}: it was changed",
            hint="export it again from where it was made",
        )
    return ReleaseFile(name, note, checksum, created_by, found)


def _entry(data: Any, number: int) -> ReleaseEntry:
    if not isinstance(data, dict) or set(data) != set(_FIELDS):
        raise InvalidRecord(f"entry {number} of the release file is none")
    if not all(isinstance(data[name], str) for name in _TEXTS):
        raise InvalidRecord(f"entry {number} of the release file: {', '.join(_TEXTS)} are text")
    if not all(_is_number(data[name]) for name in _NUMBERS) or not isinstance(data["sample_count"], int):
        raise InvalidRecord(f"entry {number} of the release file: {', '.join(_NUMBERS)} are positive numbers")
    if data["flops"] is not None and not _is_number(data["flops"]):
        raise InvalidRecord(f"entry {number} of the release file: flops is a number or null")
    if data["spec"] is not None and not isinstance(data["spec"], dict):
        raise InvalidRecord(f"entry {number} of the release file: spec is an object or null")
    return ReleaseEntry(**data)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf


def diff(old: str, before: Sequence[ReleaseEntry], new: str, after: Sequence[ReleaseEntry]) -> ReleaseDiff:
    """Return what changed from the entries of release `old` to those of `new`."""
    was, now = {e.key: e for e in before}, {e.key: e for e in after}
    both = [key for key in was if key in now]
    changed = tuple((was[key], now[key]) for key in both if was[key].digest != now[key].digest)
    return ReleaseDiff(
        old=old,
        new=new,
        added=tuple(e for e in after if e.key not in was),
        removed=tuple(e for e in before if e.key not in now),
        changed=changed,
        same=len(both) - len(changed),
    )
