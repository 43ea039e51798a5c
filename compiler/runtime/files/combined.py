"""One artifact made of several, so that a library holds many kernels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from compiler.artifact import LINKED, TEXT_BLOBS, Artifact
from compiler.errors import ArtifactError
from compiler.runtime.files.described_object import IMPORT, ORIGINAL
from compiler.runtime.files.elf import read_object

_SOURCE = "c"  # kernels in C keep theirs
_ALONE = "kernels of GPUs and parts of models are files of their own"


def combined(artifacts: Sequence[Artifact]) -> Artifact:
    """Return one artifact with the functions of all, each under its symbol, their objects linked together.

    Raises ArtifactError where two define the same name, where their targets differ, and for an artifact that is more
    than one object.
    """
    if not artifacts:
        raise ArtifactError("no artifact to combine")
    if len(targets := sorted({artifact.target for artifact in artifacts})) > 1:
        raise ArtifactError(f"a library is for one target, not for {' and '.join(targets)}")
    objects: list[bytes] = []
    for artifact in artifacts:
        if "object" not in artifact.blobs:
            raise ArtifactError(f"{_names(artifact)} has no object code", hint=_ALONE)
        if extra := sorted(n for n in artifact.blobs if not _is_code(n)):
            raise ArtifactError(f"{_names(artifact)} cannot go into a library: it has {extra[0]}", hint=_ALONE)
        objects += [artifact.blobs["object"], *artifact.linked]
    _check_symbols(objects)
    blobs = {"object": objects[0], **{f"{LINKED}{at}": code for at, code in enumerate(objects[1:])}}
    features = sorted({feature for artifact in artifacts for feature in artifact.cpu_features})
    entries = [replace(entry, name=entry.symbol) for artifact in artifacts for entry in artifact.entries]
    return Artifact(artifacts[0].target, tuple(features), tuple(entries), blobs)


def in_one_library(records: Sequence[Artifact]) -> list[Artifact]:
    """Merge the records of a linked library that have one target, unless they define the same name.

    Records have no object code, because the library has it. Imports are kept, and texts are joined.
    """
    names = [entry.name for record in records for entry in record.entries]
    alike = len({record.target for record in records}) == 1 and len(set(names)) == len(names)
    known = (*TEXT_BLOBS, _SOURCE, ORIGINAL)
    if not alike or any(n not in known and not n.startswith(IMPORT) for record in records for n in record.blobs):
        return list(records)
    blobs: dict[str, bytes] = {}
    for record in records:
        imports = sorted((n for n in record.blobs if n.startswith(IMPORT)), key=lambda name: (len(name), name))
        have = sum(name.startswith(IMPORT) for name in blobs)
        blobs.update({f"{IMPORT}{have + at}": record.blobs[name] for at, name in enumerate(imports)})
        for name in (*TEXT_BLOBS, _SOURCE):
            if name in record.blobs:
                blobs[name] = b"\n".join(filter(None, [blobs.get(name), record.blobs[name]]))
    features = sorted({feature for record in records for feature in record.cpu_features})
    entries = tuple(entry for record in records for entry in record.entries)
    return [Artifact(records[0].target, tuple(features), entries, blobs, records[0].meta)]


def _is_code(blob: str) -> bool:
    return blob in ("object", _SOURCE) or blob in TEXT_BLOBS or blob.startswith(LINKED)


def _names(artifact: Artifact) -> str:
    return ", ".join(entry.symbol for entry in artifact.entries)


def _check_symbols(objects: Sequence[bytes]) -> None:
    read = [read_object(code) for code in objects]
    counted = Counter(name for symbols in read for name in symbols.defined - symbols.weak)
    if twice := sorted(name for name, count in counted.items() if count > 1):
        raise ArtifactError(
            f"two kernels define {twice[0]}",
            hint="make helpers in C static, and give functions names of their own (tunefarm build --name)",
        )
