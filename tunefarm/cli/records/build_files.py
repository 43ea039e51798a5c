"""Files of a build: artifacts, shared libraries, tar files of objects and headers, each or together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from compiler.artifact import Artifact
from compiler.errors import TunefarmError
from compiler.runtime.files.combined import combined
from compiler.runtime.files.export import Exported, export_library
from compiler.runtime.files.header import header

FORMATS = ("tunefarm", "so", "tar", "header")


@dataclass(frozen=True)
class _Alone:
    """An artifact as a module that imports nothing: what is exported of it needs no device."""

    artifact: Artifact
    static_code: bytes | None = None
    is_part_of_importer: bool = False
    imported_modules: Sequence[Exported] = ()


def write_each(artifact: Artifact, name: str, out: Path, formats: Sequence[str]) -> tuple[Path, ...]:
    """Write a kernel in each of the formats; the files."""
    return tuple([_write(artifact, name, out, form) for form in dict.fromkeys(formats)])


def write_library(artifacts: Sequence[Artifact], name: str, out: Path, formats: Sequence[str]) -> tuple[Path, ...]:
    """Write one file with all kernels in each of the formats; the files.
    Raises ArtifactError where they clash."""
    return write_each(combined(artifacts), name, out, formats)


def _write(artifact: Artifact, name: str, out: Path, form: str) -> Path:
    path = out / f"{name}.{'h' if form == 'header' else form}"
    try:
        out.mkdir(parents=True, exist_ok=True)
        if form == "header":
            path.write_text(header(artifact))
        elif form == "tunefarm":
            path.write_bytes(artifact.to_bytes())
        else:
            export_library(_Alone(artifact), str(path))
    except OSError as error:
        raise TunefarmError(f"cannot write {path}: {error.strerror}", hint="give another folder with --out") from None
    return path
