"""Drafts kept on disk, so that another process does not draft a kernel again."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

import compiler.schedule
import tuner.model
import tuner.search
import tuner.space

VARIABLE = "TUNEFARM_DRAFT_CACHE"
"""The environment variable that names the folder; empty: nothing is kept."""
MOST_FILES = 4096
"""The files that were not used for the longest time go when there are more."""
_DRAFTING = (tuner.search, tuner.space, tuner.model, compiler.schedule)
"""Packages that decide what a draft is."""


def default_folder() -> Path | None:
    """Where drafts are kept: $TUNEFARM_DRAFT_CACHE, or tunefarm/drafts in the user's folder for caches."""
    named = os.environ.get(VARIABLE)
    if named is not None:
        return Path(named).expanduser() if named else None
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "tunefarm" / "drafts"


class DraftCache:
    """A folder with a file for each kernel and target.
    Several processes may use it at once. None keeps nothing."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def find(self, key: str, target: str) -> tuple[str | None] | None:
        """Return the trace kept for a workload key; None: not kept.
        A tuple with None: there is nothing to draft."""
        if self._folder is None:
            return None
        path = self._path(key, target)
        with suppress(OSError, ValueError):
            match json.loads(path.read_text("utf-8")):
                case {"trace": str() | None as trace}:
                    os.utime(path)
                    return (trace,)
        return None

    def keep(self, key: str, target: str, trace: str | None) -> None:
        """Store a draft. If the disk is full or read-only, only the next process's time is lost."""
        if self._folder is None:
            return
        path = self._path(key, target)
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=path.parent) as folder:
                written = Path(folder) / path.name
                written.write_text(json.dumps({"trace": trace}), "utf-8")
                os.replace(written, path)
            _prune(path.parent)

    def _path(self, key: str, target: str) -> Path:
        assert self._folder is not None
        name = hashlib.sha256(json.dumps([key, target, _drafter()]).encode()).hexdigest()
        return self._folder / f"{name}.json"


def _prune(folder: Path) -> None:
    files = list(folder.glob("*.json"))
    if len(files) > MOST_FILES:
        for old in sorted(files, key=lambda file: file.stat().st_mtime)[: len(files) - MOST_FILES]:
            old.unlink(missing_ok=True)


@cache
def _drafter() -> str:
    """Return what drafts depend on besides kernel and target.
    That is the code that makes them, and the models that come with it."""
    found = hashlib.sha256()
    for package in _DRAFTING:
        for folder in package.__path__:
            for file in sorted(Path(folder).rglob("*")):
                if file.suffix != ".pyc" and file.is_file():
                    told = file.stat()
                    found.update(f"{file.relative_to(folder)}:{told.st_size}:{told.st_mtime_ns}\n".encode())
    return found.hexdigest()
