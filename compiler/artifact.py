"""Artifacts: compiled code as data.

A manifest of entry points, and named blobs (object, text, constants).

Bytes layout, little endian: 8 bytes magic, u32 format version, u32 manifest length, 32 bytes sha256 of the
manifest, the manifest (JSON), then every blob in the manifest's order. Reading trusts nothing: sizes are
bounded and checked before use, each hash is compared, and any fault is an ArtifactError.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any

import msgspec

from compiler.dtype import parse_dtype
from compiler.errors import ArtifactError, IRError
from compiler.extents import parse_extent
from compiler.framed_manifest import Framing
from compiler.launches import Launch, Workspace

MAGIC = b"TUNEFARM"
FORMAT_VERSION = 2  # 2: extents as expressions, implicit arguments
MAX_MANIFEST_BYTES = 16 << 20
MAX_BLOB_BYTES = 8 << 30
MAX_BLOBS = 65536
MAX_NDIM = 32
MAX_CONSTANTS = 1 << 22
# Kept to be read by people and tools; running the artifact does not need them.
TEXT_BLOBS = frozenset({"ll", "asm", "tir"})
PYTHON = "python"  # the source of functions in Python, in place of "object"
LINKED = "linked."  # and a number: objects to be linked to "object"
# What the names of two entries end with that do the work of one (see `compiler.lower.blocks.split_preproc`).
PREPACK, PREPACKED = "_weight_prepack", "_prepacked"
CONSTANTS = "tunefarm_model_constants"  # the object's table of addresses of a model's constants
CONSTANT = "const."  # and a number: a constant of a model
NO_KERNEL = -4  # the code of a dispatch that has no kernel for the sizes of a call
FIRST_CHECK = 16  # the code of a model's check 0; kernels have smaller ones

FRAMING = Framing("artifact", "an", MAGIC, FORMAT_VERSION, MAX_MANIFEST_BYTES)
_SYMBOL = re.compile(r"[A-Za-z_.$][A-Za-z0-9_.$]{0,511}")
_BLOB_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.\-]{0,255}")


@dataclass(frozen=True, slots=True)
class ArgSpec:
    """One kernel argument: an array of `dtype` and `shape`, or with shape None a scalar (one 8-byte slot).

    An extent that is text is known at the call only: an expression (see `compiler.extents`) over scalar arguments
    and names that stand as the whole extent of some array. `strides`, in elements, are those of an array that is
    not compact: C programs can pass one.
    """

    name: str
    dtype: str
    shape: tuple[int | str, ...] | None
    strides: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        try:
            parsed = parse_dtype(self.dtype)
        except IRError as error:
            raise ArtifactError(f"argument {self.name!r}: {error.message}") from None
        if self.shape is None:
            if parsed.lanes != 1:
                raise ArtifactError(f"argument {self.name!r}: a scalar of dtype {self.dtype} is not possible")
            return
        object.__setattr__(self, "shape", tuple(self.shape))
        object.__setattr__(self, "strides", tuple(self.strides))
        if self.strides and len(self.strides) != len(self.shape):
            raise ArtifactError(f"argument {self.name!r}: {len(self.strides)} strides for {len(self.shape)} dimensions")
        if len(self.shape) > MAX_NDIM or any(not 0 <= e < 1 << 48 for e in self.shape if isinstance(e, int)):
            raise ArtifactError(f"argument {self.name!r}: the shape {self.shape} is not possible")
        for extent in self.shape:
            if isinstance(extent, str):
                parse_extent(extent)

    @property
    def fixed_shape(self) -> tuple[int, ...] | None:
        """The shape of an array when it is known before the call."""
        if self.shape is None or any(isinstance(extent, str) for extent in self.shape):
            return None
        return self.shape  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class ImplicitArg:
    """An integer that the caller does not pass: `value` is computed from the shapes (`compiler.extents`)."""

    name: str
    dtype: str
    value: str

    def __post_init__(self) -> None:
        parse_extent(self.value)
        if self.dtype not in ("int32", "int64"):
            raise ArtifactError(f"implicit argument {self.name!r} cannot be {self.dtype!r}")


@dataclass(frozen=True, slots=True)
class MadeResult:
    """A result that a graph's function makes memory for: argument number `index` takes a cell.

    A cell has 2 + ndim words of 64 bits: an address, the bytes there, and the extents. Whoever calls frees the memory.
    """

    index: int
    dtype: str
    ndim: int

    def __post_init__(self) -> None:
        parse_dtype(self.dtype)
        if not 0 <= self.ndim <= MAX_NDIM:
            raise ArtifactError(f"a result of {self.ndim} dimensions is not possible")


@dataclass(frozen=True, slots=True)
class EntryPoint:
    """A callable kernel: `name` to users, `symbol` in the object (with `<symbol>_packed` beside it).

    `outputs` are the indices of the arguments it writes. `implicit` arguments follow `args` in the slots. A GPU's entry
    is its `launches`, in order, and the `workspaces` they need. `results`: how many of the last arguments are results,
    for a function made of a graph, -1 for a kernel; `made`: those that it makes memory for. `checks`: what it says
    where it returns FIRST_CHECK, and so on; `constants`: the size of the table of the model's constants. `flops`: the
    arithmetic of a call, in extents, where it is known.
    """

    name: str
    symbol: str
    args: tuple[ArgSpec, ...]
    outputs: tuple[int, ...]
    implicit: tuple[ImplicitArg, ...] = ()
    launches: tuple[Launch, ...] = ()
    workspaces: tuple[Workspace, ...] = ()
    results: int = -1
    checks: tuple[str, ...] = ()
    constants: int = 0
    flops: str = ""
    made: tuple[MadeResult, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "args", tuple(self.args))
        object.__setattr__(self, "outputs", tuple(self.outputs))
        for name in ("implicit", "launches", "workspaces", "checks", "made"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if not _SYMBOL.fullmatch(self.symbol):
            raise ArtifactError(f"entry {self.name!r}: {self.symbol[:80]!r} is no symbol name")
        for index in self.outputs:
            if not 0 <= index < len(self.args):
                raise ArtifactError(f"entry {self.name!r}: output {index} is not one of its {len(self.args)} arguments")
        if not -1 <= self.results <= len(self.args):
            raise ArtifactError(f"entry {self.name!r}: {self.results} of its {len(self.args)} arguments are results")
        for result in self.made:
            place = len(self.args) - self.results
            words = self.args[result.index] if place <= result.index < len(self.args) else None
            if words is None or words.dtype != "int64" or words.shape != (2 + result.ndim,):
                raise ArtifactError(f"entry {self.name!r}: argument {result.index} is no cell of a result")
        if not 0 <= self.constants <= MAX_CONSTANTS:
            raise ArtifactError(f"entry {self.name!r}: a table of {self.constants} constants")
        if self.flops:
            parse_extent(self.flops)
        self._check_names()
        slots = len(self.args) + len(self.implicit) + len(self.workspaces)
        for launch in self.launches:
            if any(not 0 <= slot < slots for slot in launch.slots):
                raise ArtifactError(f"entry {self.name!r}: kernel {launch.symbol} is passed what it does not have")

    @property
    def is_graph(self) -> bool:
        """Whether it is made of a whole graph: its C function returns a code, as the packed one does."""
        return self.results >= 0

    @property
    def extents(self) -> tuple[str, ...]:
        """Every extent that is known at the call only."""
        return tuple(e for arg in self.args for e in arg.shape or () if isinstance(e, str))

    def _check_names(self) -> None:
        texts = [*self.extents, *(arg.value for arg in self.implicit), *(space.elements for space in self.workspaces)]
        texts += [text for launch in self.launches for text in launch.grid]
        if not texts:
            return
        bound = {e for e in self.extents if parse_extent(e).is_name}
        bound |= {arg.name for arg in self.args if arg.shape is None}
        for text in texts:
            for name in sorted(parse_extent(text).names - bound):
                raise ArtifactError(
                    f"entry {self.name!r}: nothing gives {name!r}, which {text!r} needs, a value",
                    hint="an array needs it as an extent, or the function as a scalar argument",
                )


@dataclass(frozen=True)
class Artifact:
    """Compiled code for one target. Frozen; `digest` names its run-time content.

    target: canonical text of the resolved target. cpu_features: what the CPU must have (LLVM's names).
    blobs: "object" (a relocatable ELF file), "linked.<i>" (more of them), "ll", "asm", "tir", "ptx", "const.<name>".
    meta: where it comes from (versions of tunefarm and LLVM); not part of `digest`.
    """

    target: str
    cpu_features: tuple[str, ...]
    entries: tuple[EntryPoint, ...]
    blobs: Mapping[str, bytes] = field(hash=False)
    meta: Mapping[str, str] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "cpu_features", tuple(self.cpu_features))
        object.__setattr__(self, "entries", tuple(self.entries))
        object.__setattr__(self, "blobs", MappingProxyType(dict(self.blobs)))
        object.__setattr__(self, "meta", MappingProxyType(dict(self.meta)))
        names = [entry.name for entry in self.entries]
        if len(set(names)) != len(names):
            raise ArtifactError(f"an artifact with two entries of one name: {', '.join(sorted(names))}")
        for name in self.blobs:
            if not _BLOB_NAME.fullmatch(name):
                raise ArtifactError(f"{name[:80]!r} is no blob name")

    def __reduce__(self) -> tuple[Any, ...]:
        return Artifact, (self.target, self.cpu_features, self.entries, dict(self.blobs), dict(self.meta))

    @cached_property
    def digest(self) -> str:
        """sha256 (hex) over target, features, entries and the blobs needed to run."""
        needed = {name: value for name, value in _hashes(self.blobs).items() if name not in TEXT_BLOBS}
        content = {**self._description(), "blobs": needed}
        return hashlib.sha256(_json(content)).hexdigest()

    def entry(self, name: str) -> EntryPoint:
        """The entry point called `name`. Raises ArtifactError listing what there is."""
        for entry in self.entries:
            if entry.name == name:
                return entry
        raise ArtifactError(
            f"the artifact has no entry point {name!r}",
            hint=f"it has: {', '.join(entry.name for entry in self.entries) or 'none'}",
        )

    @property
    def linked(self) -> tuple[bytes, ...]:
        """The objects to be linked to its own, in order."""
        names = [name for name in self.blobs if name.startswith(LINKED)]
        return tuple(self.blobs[name] for name in sorted(names, key=lambda name: (len(name), name)))

    @property
    def constants(self) -> int:
        """The size of the table of a model's constants, 0 without one."""
        return max((entry.constants for entry in self.entries), default=0)

    def runtime_only(self) -> Artifact:
        """The same artifact without text blobs, which is what a device box needs.
        Its digest is the same."""
        kept = {name: blob for name, blob in self.blobs.items() if name not in TEXT_BLOBS}
        return Artifact(self.target, self.cpu_features, self.entries, kept, self.meta)

    def to_bytes(self) -> bytes:
        """Serialise, blobs in name order. Equal artifacts give equal bytes."""
        hashes = _hashes(self.blobs)
        blobs = [{"name": name, "size": len(self.blobs[name]), "sha256": hashes[name]} for name in sorted(self.blobs)]
        described = {"format": FORMAT_VERSION, **self._description(), "meta": dict(self.meta), "blobs": blobs}
        return b"".join((FRAMING.begin(described), *(self.blobs[name] for name in sorted(self.blobs))))

    @staticmethod
    def from_bytes(data: bytes | bytearray | memoryview) -> Artifact:
        """Read what `to_bytes` wrote. Raises ArtifactError on anything else, whatever the bytes are."""
        view = memoryview(data).cast("B")
        manifest, offset = _read_manifest(view)
        blobs: dict[str, bytes] = {}
        for item in manifest.blobs:
            if item.name in blobs:
                raise ArtifactError(f"the artifact holds blob {item.name!r} twice")
            if item.size > len(view) - offset:
                raise ArtifactError(
                    f"the artifact is cut short: blob {item.name!r} needs {item.size} bytes, "
                    f"{len(view) - offset} are left"
                )
            blob = bytes(view[offset : offset + item.size])
            offset += item.size
            if hashlib.sha256(blob).hexdigest() != item.sha256:
                raise ArtifactError(f"the artifact is damaged: blob {item.name!r} does not match its sha256")
            blobs[item.name] = blob
        if offset != len(view):
            raise ArtifactError(f"the artifact has {len(view) - offset} bytes too many")
        return Artifact(manifest.target, manifest.cpu_features, manifest.entries, blobs, manifest.meta)

    def _description(self) -> dict[str, Any]:
        return {
            "target": self.target,
            "cpu_features": self.cpu_features,
            "entries": [_entry_fields(entry) for entry in self.entries],
        }


def _entry_fields(entry: EntryPoint) -> dict[str, Any]:
    """The fields as JSON holds them.
    Parts that an older entry did not have are left out when empty, so older readers still read it."""
    fields = asdict(entry)
    for launch in fields["launches"]:
        if not launch["tensor_maps"]:
            del launch["tensor_maps"]
    for arg in fields["args"]:
        if not arg["strides"]:
            del arg["strides"]
    if not entry.made:
        del fields["made"]
    if entry.is_graph:
        return fields
    optional = ("launches", "workspaces", "results", "checks", "constants", "flops")
    return {name: value for name, value in fields.items() if name not in optional or (value and value != -1)}


class _BlobRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    size: int
    sha256: str


class _Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format: int
    target: str
    cpu_features: tuple[str, ...]
    entries: tuple[EntryPoint, ...]
    meta: dict[str, str]
    blobs: tuple[_BlobRecord, ...]


_decoder = msgspec.json.Decoder(_Manifest)


def _read_manifest(view: memoryview) -> tuple[_Manifest, int]:
    manifest, end = FRAMING.read(view, _decoder)
    if len(manifest.blobs) > MAX_BLOBS or any(not 0 <= b.size <= MAX_BLOB_BYTES for b in manifest.blobs):
        raise ArtifactError("the artifact's manifest lists blobs of impossible number or size")
    return manifest, end


def _hashes(blobs: Mapping[str, bytes]) -> dict[str, str]:
    return {name: hashlib.sha256(blob).hexdigest() for name, blob in blobs.items()}


def _json(data: dict[str, Any]) -> bytes:
    """Canonical JSON: sorted keys, no spaces, ASCII."""
    return json.dumps(data, sort_keys=True, separators=(",", ":")).encode("ascii")
