"""Artifacts as bytes: they round trip, and nothing but ArtifactError comes from bytes that are none."""

from __future__ import annotations

import hashlib
import json
import pickle
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.artifact import FORMAT_VERSION, MAGIC, ArgSpec, Artifact, EntryPoint, ImplicitArg
from compiler.errors import ArtifactError


def sample() -> Artifact:
    args = (ArgSpec("A", "float32", (4, "m")), ArgSpec("n", "int64", None), ArgSpec("C", "float32", ("n*2 + m",)))
    return Artifact(
        target="llvm -mcpu=znver3",
        cpu_features=("avx2", "fma"),
        entries=(EntryPoint("main", "main_0", args, (2,), (ImplicitArg("m", "int32", "m"),)),),
        blobs={"object": b"\x7fELF" + bytes(range(256)), "ll": b"define void @main_0()"},
        meta={"llvm": "22.1"},
    )


def pack(manifest: object, body: bytes = b"", version: int = FORMAT_VERSION) -> bytes:
    """An artifact file with any manifest and correct hashes around it."""
    text = manifest if isinstance(manifest, bytes) else json.dumps(manifest).encode()
    return struct.pack("<8sII32s", MAGIC, version, len(text), hashlib.sha256(text).digest()) + text + body


def manifest(**changes: object) -> dict[str, object]:
    base: dict[str, object] = {
        "format": FORMAT_VERSION, "target": "llvm", "cpu_features": [], "entries": [], "meta": {}, "blobs": [],
    }  # fmt: skip
    return base | changes


def test_round_trip() -> None:
    artifact = sample()
    again = Artifact.from_bytes(artifact.to_bytes())
    assert again == artifact
    assert again.to_bytes() == artifact.to_bytes()
    assert again.digest == artifact.digest
    assert hash(again) == hash(artifact)
    assert pickle.loads(pickle.dumps(artifact)) == artifact


def test_digest_covers_what_runs_and_nothing_else() -> None:
    artifact = sample()
    assert artifact.runtime_only().digest == artifact.digest
    assert set(artifact.runtime_only().blobs) == {"object"}
    other = Artifact(artifact.target, artifact.cpu_features, artifact.entries, artifact.blobs, {"llvm": "x"})
    assert other.digest == artifact.digest
    changed = Artifact(artifact.target, ("avx2",), artifact.entries, artifact.blobs, artifact.meta)
    assert changed.digest != artifact.digest
    changed = Artifact(artifact.target, artifact.cpu_features, artifact.entries, {"object": b"x"}, {})
    assert changed.digest != artifact.digest


def test_entry_lookup_lists_what_there_is() -> None:
    assert sample().entry("main").symbol == "main_0"
    with pytest.raises(ArtifactError, match="it has: main"):
        sample().entry("other")


def test_is_frozen() -> None:
    with pytest.raises(TypeError):
        sample().blobs["object"] = b""  # type: ignore[index]


@pytest.mark.parametrize(
    ("build", "match"),
    [
        (lambda: ArgSpec("A", "float33", (1,)), "float33"),
        (lambda: ArgSpec("A", "float32", (1,) * 33), "shape"),
        (lambda: ArgSpec("A", "float32", (-2,)), "shape"),
        (lambda: ArgSpec("A", "float32x4", None), "scalar"),
        (lambda: ArgSpec("A", "float32", ("n.__class__",)), "is no extent"),
        (lambda: ArgSpec("A", "float32", ("open('x')",)), "is no extent"),
        (lambda: ArgSpec("A", "float32", ("n ** 9999",)), "is no extent"),
        (lambda: ArgSpec("A", "float32", ("n+" * 200 + "n",)), "characters"),
        (lambda: ImplicitArg("n", "float32", "n"), "cannot be 'float32'"),
        (lambda: EntryPoint("f", "f", (ArgSpec("A", "float32", ("n*2",)),), ()), "nothing gives 'n'"),
        (lambda: EntryPoint("f", "f", (), (), (ImplicitArg("n", "int32", "m"),)), "nothing gives 'm'"),
        (lambda: EntryPoint("f", "no symbol", (), ()), "symbol"),
        (lambda: EntryPoint("f", "f", (), (0,)), "output 0"),
        (lambda: Artifact("llvm", (), (EntryPoint("f", "f", (), ()),) * 2, {}), "two entries"),
        (lambda: Artifact("llvm", (), (), {"../x": b""}), "blob name"),
    ],
)
def test_impossible_parts_are_refused(build: object, match: str) -> None:
    with pytest.raises(ArtifactError, match=match):
        build()  # type: ignore[operator]


def test_unknown_version_is_refused() -> None:
    with pytest.raises(ArtifactError, match="format version 7"):
        Artifact.from_bytes(pack(manifest(), version=7))
    with pytest.raises(ArtifactError, match="manifest says format 3"):
        Artifact.from_bytes(pack(manifest(format=3)))


def test_every_flipped_byte_is_noticed() -> None:
    data = sample().to_bytes()
    for position in range(len(data)):
        bad = bytearray(data)
        bad[position] ^= 0x20
        with pytest.raises(ArtifactError):
            Artifact.from_bytes(bad)


def test_every_cut_and_any_extension_is_noticed() -> None:
    data = sample().to_bytes()
    for length in range(len(data)):
        with pytest.raises(ArtifactError):
            Artifact.from_bytes(data[:length])
    with pytest.raises(ArtifactError, match="too many"):
        Artifact.from_bytes(data + b"\0")


@pytest.mark.parametrize(
    "text",
    [
        b"[" * 100_000,
        b'{"format":' * 50_000,
        b"\xff\xfe",
        b"null",
        b"",
        b'{"format":' + b"9" * 5000 + b"}",
        json.dumps(manifest(extra=1)).encode(),
        json.dumps(manifest(format=True)).encode(),
        json.dumps(manifest(meta={"a": 1})).encode(),
        json.dumps(manifest(blobs=[{"name": "object", "size": 1 << 62, "sha256": ""}])).encode(),
        json.dumps(manifest(blobs=[{"name": "object", "size": -1, "sha256": ""}])).encode(),
        json.dumps(manifest(blobs=[{"name": "object", "size": 0, "sha256": ""}])).encode(),
        json.dumps(manifest(entries=[{"name": "f", "symbol": "f", "args": [], "outputs": [0]}])).encode(),
        json.dumps(manifest(target="\ud800")).encode(),
    ],
)
def test_hostile_manifests(text: bytes) -> None:
    with pytest.raises(ArtifactError):
        Artifact.from_bytes(pack(text))


def test_blob_listed_twice() -> None:
    record = {"name": "object", "size": 0, "sha256": hashlib.sha256(b"").hexdigest()}
    with pytest.raises(ArtifactError, match="twice"):
        Artifact.from_bytes(pack(manifest(blobs=[record, record])))


@given(st.binary(max_size=300))
def test_random_bytes(data: bytes) -> None:
    for attempt in (data, MAGIC + data, pack(data)):
        with pytest.raises(ArtifactError):
            Artifact.from_bytes(attempt)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=40)
@given(
    field=st.sampled_from(["format", "target", "cpu_features", "entries", "meta", "blobs"]),
    value=values,
    body=st.binary(max_size=8),
)
def test_any_manifest_loads_or_raises_artifact_error(field: str, value: object, body: bytes) -> None:
    data = pack(json.dumps(manifest(**{field: value})).encode(), body)
    try:
        artifact = Artifact.from_bytes(data)
    except ArtifactError:
        return
    assert Artifact.from_bytes(artifact.to_bytes()) == artifact
