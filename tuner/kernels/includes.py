"""The user's own files that C source includes, so that they go along to wherever it is compiled."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from tuner.errors import TuningError

Header = tuple[str, str]
"""A file's path from the source's folder, which may lead up ("../common/simd.h"), and its text."""

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.MULTILINE)
_MOST_BYTES = 4 << 20


def local_headers(text: str, folder: Path) -> tuple[Header, ...]:
    """Return what source `text` in `folder` includes with `#include "..."`, directly or not, by path.

    A name is looked for beside the file that includes it. A missing one is left to the compiler, which may have it
    on its path, or never reach the line. Raises TuningError for a file that cannot be read as text, or when all are
    more than 4 MiB.
    """
    root = Path(os.path.normpath(folder.absolute()))
    found: dict[Path, str] = {}
    left = list(_included(text, root))
    while left:
        path = left.pop()
        if path in found or not path.is_file():
            continue
        found[path] = _text(path)
        left += _included(found[path], path.parent)
    if sum(map(len, found.values())) > _MOST_BYTES:
        raise TuningError(f"the files that the source in {folder} includes are more than {_MOST_BYTES >> 20} MiB")
    names = {Path(os.path.relpath(path, root)).as_posix(): held for path, held in found.items()}
    return tuple(sorted(names.items()))


def _included(text: str, folder: Path) -> list[Path]:
    return [Path(os.path.normpath(folder / name)) for name in _INCLUDE.findall(text)]


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise TuningError(f"{path}, which the source includes, can't be read: {error}") from None


def lay_out(headers: Iterable[Header], folder: Path) -> Path:
    """Write the files below `folder`, and return the folder that the source belongs into.
    So its includes lead to them."""
    known = [(PurePosixPath(name), text) for name, text in headers]
    depth = max((path.parts.count("..") for path, _ in known), default=0)
    place = folder.joinpath(*["down"] * depth)
    place.mkdir(parents=True, exist_ok=True)
    for path, text in known:
        to = Path(os.path.normpath(place / path))
        if not to.is_relative_to(folder):
            raise TuningError(f"{path} is no path from a source's folder")
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(text)
    return place
