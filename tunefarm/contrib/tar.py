"""Objects packed into tar files: `module.export_library("f.tar", fcompile=tar.tar)`."""

from __future__ import annotations

import os
import tarfile
import tempfile
from collections.abc import Sequence

from compiler.runtime.files.linker import create_tar as tar
from tunefarm.contrib.utils import TempDirectory

__all__ = ["normalize_file_list_by_unpacking_tars", "tar", "untar"]


def untar(tar_file: str | os.PathLike[str], directory: str | os.PathLike[str]) -> None:
    """Unpack a tar file into a folder, which is made if need be. Nothing is written outside of it.

    Raises tarfile.TarError for a file that is none, or that asks for more.
    """
    os.makedirs(directory, exist_ok=True)
    with tarfile.open(tar_file) as archive:
        archive.extractall(directory, filter="data")


def normalize_file_list_by_unpacking_tars(temp: TempDirectory, file_list: Sequence[str]) -> list[str]:
    """Return the files with the contents, unpacked into `temp`, in place of each tar file."""
    return _unpacked(temp.temp_dir, file_list)


def _unpacked(folder: str, file_list: Sequence[str]) -> list[str]:
    found: list[str] = []
    for name in map(os.fspath, file_list):
        if not name.endswith(".tar"):
            found.append(name)
            continue
        place = tempfile.mkdtemp(dir=folder)
        untar(name, place)
        inside = (os.path.join(root, file) for root, _, files in os.walk(place) for file in files)
        found += _unpacked(folder, sorted(inside))
    return found
