"""One artifact made of several, so that a library holds many kernels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from compiler.artifact import LINKED, TEXT_BLOBS, Artifact
from compiler.errors import ArtifactError
from compiler.runtime.files.elf import read_object

_SOURCE = "c"  # kernels in C keep theirs
_ALONE = "kernels of GPUs and parts of models are files of their own"


def combined(artifacts: Sequence[Artifact]) -> Artifact:
    """Return one artifact with the functions of all, each under its symbol; the objects are linked together.

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
